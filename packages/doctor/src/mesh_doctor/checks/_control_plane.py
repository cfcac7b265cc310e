"""Whether the servers of the control plane are reached, and are the ones that are meant."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from mesh_doctor._config import DoctorConfig
from mesh_doctor._finding import Cause, Finding, consequence, ok, problem, skipped
from mesh_doctor._observed import Observed, SeenServer, entry
from mesh_doctor.checks._clock import CHECK as CLOCK
from mesh_doctor.checks._clock import control_planes_time
from mesh_identity import Fault

CHECK = "control plane"
_CAUSES: Mapping[Fault, Cause] = MappingProxyType(
    {
        Fault.UNRESOLVED: Cause.CONTROL_PLANE_UNRESOLVED,
        Fault.REFUSED: Cause.CONTROL_PLANE_REFUSES,
        Fault.SILENT: Cause.CONTROL_PLANE_SILENT,
        Fault.NO_TLS: Cause.CONTROL_PLANE_NO_TLS,
        Fault.WRONG_ROOT: Cause.WRONG_ROOT,
        Fault.WRONG_NAME: Cause.WRONG_NAME,
        Fault.EXPIRED: Cause.CONTROL_PLANE_CERTIFICATE,
        Fault.NOT_YET_VALID: Cause.CONTROL_PLANE_CERTIFICATE,
        Fault.UNVERIFIED: Cause.CONTROL_PLANE_CERTIFICATE,
        Fault.OTHER: Cause.CONTROL_PLANE_UNREACHABLE,
    }
)


def control_plane(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look at each server, for what it serves."""
    if not seen.servers:
        yield skipped(CHECK, "the configuration names none")
    connected = entry(seen.agent.document, "xds").get("connected") is True
    there = control_planes_time(seen)
    for each in seen.servers:
        finding = _finding(each, unseen=config.other_user if connected else "")
        validity = each.unreachable.validity if each.unreachable is not None else None
        is_valid_there = (
            there is not None
            and validity is not None
            and validity.not_before.timestamp() <= there < validity.not_after.timestamp()
        )
        yield consequence(finding, of=CLOCK) if is_valid_there else finding


def _finding(seen: SeenServer, *, unseen: str) -> Finding:
    """unseen: why the agent may have read the roots that could not be read here."""
    server = seen.server
    where = f"{server.address} ({server.serves})"
    if seen.roots_problem and unseen:
        return skipped(CHECK, f"{where}: {seen.roots_problem} ({unseen})")
    if seen.roots_problem:
        fix = f"mount the mesh's root there, or name another file in {server.root_setting}"
        return problem(CHECK, Cause.ROOT_MISSING, f"{where}: {seen.roots_problem}", fix)
    if seen.unreachable is None:
        how = "reached; plaintext" if server.roots is None else f"reached, and it is {server.name}"
        return ok(CHECK, f"{where}: {how}")
    fault, reason, validity = seen.unreachable
    if validity is not None:
        reason += (
            f" (it is valid from {validity.not_before.isoformat(' ', 'seconds')} "
            f"to {validity.not_after.isoformat(' ', 'seconds')})"
        )
    return problem(CHECK, _CAUSES[fault], f"{where}: {reason}", _fix(seen, fault))


def _fix(seen: SeenServer, fault: Fault) -> str:
    server = seen.server
    address = "discoveryAddress in PROXY_CONFIG, or CA_ADDR,"
    renewed = "see the clock; if it is right, the control plane's certificate has to be renewed"
    fixes: Mapping[Fault, str] = {
        Fault.UNRESOLVED: f"correct {address} or the machine's resolver",
        Fault.REFUSED: f"start the control plane, or correct {address} if it is elsewhere",
        Fault.SILENT: (
            f"look for a firewall or network policy between here and {server.address}, or "
            f"correct {address} if it is elsewhere"
        ),
        Fault.NO_TLS: (
            f"correct {address} to the port that speaks TLS (15012); 15010 is the port without TLS"
        ),
        Fault.WRONG_ROOT: (
            f"put the control plane's root into {server.roots}, or name the file that has it in "
            f"{server.root_setting}; or correct {address} if this is another mesh's"
        ),
        Fault.WRONG_NAME: f"set {server.name_setting} to one of its names, or correct {address}",
        Fault.EXPIRED: renewed,
        Fault.NOT_YET_VALID: renewed,
    }
    return fixes.get(fault, f"see why {server.address} can't be reached from here")
