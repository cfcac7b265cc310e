"""The `certs` screen: what the workload was issued, what Envoy serves, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from mesh_agent_cli._errors import CliError
from mesh_agent_cli._http import fetch_object, local_url
from mesh_agent_cli.screens._fields import (
    mapping,
    moment,
    objects,
    seconds_between,
    short_serial,
    shown_time,
    text,
)
from mesh_agent_cli.screens._status import fetch_status
from mesh_agent_cli.screens._terminal import Row, Screen, Tone, rows
from mesh_command_line import span

_SHOWN_KEY_ID = 16
_ADMIN_PORT = 15000


def fetch_certificates(*, address: str, port: int, envoy_port: int | None) -> Mapping[str, object]:
    """Ask the agent and Envoy; raises CliError if the agent does not answer.

    Returns `agent`, `envoy` (None if it can't be asked, for the reason in `envoy_error`), `agree`
    (None if that is not known) and `differences`.
    """
    status = fetch_status(address=address, port=port)
    envoy: Mapping[str, object] | None = None
    error = ""
    try:
        url = _admin_url(status, address, envoy_port)
        envoy = fetch_object(url, purpose="ask Envoy for its certificates", program="an Envoy")
    except CliError as raised:
        error = str(raised)
    agent = mapping(status, "certificate")
    serves = envoy is not None and any(_chains(envoy, "cert_chain"))
    if text(agent, "served_by"):
        # The agent sees no secret of the other process: there is nothing to compare.
        compared = envoy is not None and not serves
    else:
        compared = envoy is not None and (serves or bool(_serial(agent) and not _is_idle(status)))
    differences = list(_differences(agent, envoy)) if envoy is not None and compared else None
    return {
        "spiffe_id": status.get("spiffe_id"),
        "agent": agent,
        "envoy": envoy,
        "envoy_error": error or None,
        "agree": None if differences is None else not differences,
        "differences": differences or [],
    }


def _is_idle(status: Mapping[str, object]) -> bool:
    """Return whether an Envoy without a certificate is well: nothing that it has waits for one.

    It asks for its certificate only once some cluster or listener uses it. In a mesh without
    services none does.
    """
    return status.get("ready") is True and not mapping(status, "envoy").get("warming")


def _admin_url(status: Mapping[str, object], address: str, envoy_port: int | None) -> str:
    admin = text(mapping(status, "envoy"), "admin")
    if envoy_port is not None or not admin:
        return local_url(address, envoy_port or _ADMIN_PORT, "certs")
    if admin.startswith("unix:"):
        raise CliError(f"Envoy's admin interface is at {admin}, which is not asked")
    return f"http://{admin}/certs"


def _differences(agent: Mapping[str, object], envoy: Mapping[str, object]) -> Iterator[str]:
    """Compare the workload certificate and the roots, by their serials."""
    issued = _serial(agent)
    served = sorted({_serial(chain[0]) for chain in _chains(envoy, "cert_chain")})
    if text(agent, "served_by"):
        if not served:
            yield "Envoy has no certificate of the other process"
        return
    if not issued:
        if served:
            yield f"Envoy serves {_listed(served)}, and the agent has no certificate"
        return
    if not served:
        yield "Envoy has no workload certificate"
    elif served != [issued]:
        yield f"Envoy serves {_listed(served)}, and {short_serial(issued)} was issued last"
    roots = {_serial(each) for each in objects(agent, "roots")}
    trusted = {_serial(each) for chain in _chains(envoy, "ca_cert") for each in chain}
    if roots and trusted and not roots <= trusted:
        yield f"Envoy does not have the roots {_listed(roots - trusted)}"


def _listed(serials: Iterable[str]) -> str:
    return ", ".join(map(short_serial, sorted(serials)))


def _chains(envoy: Mapping[str, object], which: str) -> Iterator[list[Mapping[str, object]]]:
    for each in objects(envoy, "certificates"):
        if chain := objects(each, which):
            yield chain


def _serial(entry: Mapping[str, object]) -> str:
    said = text(entry, "serial") or text(entry, "serial_number")
    return said.lower().lstrip("0")


def render_certificates(found: Mapping[str, object], *, now: datetime, out: Screen) -> str:
    """Return the screen."""
    return "\n".join(rows(_rows(found, now), out))


def _rows(found: Mapping[str, object], now: datetime) -> Iterator[Row]:
    agent, envoy = mapping(found, "agent"), mapping(found, "envoy")
    yield Row("workload", text(found, "spiffe_id") or "-")
    yield from _issued(agent, now)
    if found.get("envoy") is None:
        yield Row("Envoy", text(found, "envoy_error") or "not asked", Tone.DOUBTFUL)
    else:
        yield from _served(envoy, now)
    agree = found.get("agree")
    if agree is True:
        yield Row("agree", "yes: Envoy serves what was issued last", Tone.GOOD)
    elif agree is False:
        differences = found.get("differences")
        said = "; ".join(map(str, differences)) if isinstance(differences, list) else ""
        yield Row("agree", f"NO: {said}", Tone.BAD)
    elif found.get("envoy") is None:
        yield Row("agree", "not known: Envoy was not asked")
    elif text(agent, "served_by"):
        yield Row("agree", "not known: the agent sees no certificates of the other process")
    elif _serial(agent):
        yield Row("agree", "not known: Envoy has no configuration yet that uses a certificate")
    else:
        yield Row("agree", "neither has a certificate", Tone.BAD)


def _issued(agent: Mapping[str, object], now: datetime) -> Iterator[Row]:
    if text(agent, "served_by"):
        yield Row("issued", f"by another process at {text(agent, 'served_by')}")
        return
    chain = objects(agent, "chain")
    if not chain and text(agent, "serial"):
        chain = [agent]  # an agent that tells no chain
    if not chain:
        error = text(agent, "last_error")
        yield Row("issued", f"NONE: {error}" if error else "none yet", Tone.BAD)
    for place, each in enumerate(chain):
        yield from _certificate("issued" if place == 0 else "intermediate", each, now)
    roots = objects(agent, "roots")
    for place, each in enumerate(roots):
        label = "root" if len(roots) == 1 else f"root {place + 1}"
        yield from _certificate(label, each, now)


def _certificate(label: str, entry: Mapping[str, object], now: datetime) -> Iterator[Row]:
    life, tone = _life(moment(entry, "not_before"), moment(entry, "not_after"), now)
    yield Row(label, f"serial {short_serial(text(entry, 'serial'))}, {life}", tone)
    names = entry.get("names")
    if isinstance(names, list):
        yield Row("names", ", ".join(map(str, names)), below=True)
    subject, issuer = text(entry, "subject"), text(entry, "issuer")
    yield Row("subject", subject, below=True)
    if issuer != subject:
        yield Row("issuer", issuer, below=True)
    if text(entry, "key_id"):
        yield Row("key id", text(entry, "key_id")[:_SHOWN_KEY_ID], below=True)


def _life(begins: datetime | None, ends: datetime | None, now: datetime) -> tuple[str, Tone]:
    left_s, age_s = seconds_between(now, ends), seconds_between(begins, now)
    if ends is None or left_s is None:
        return "end not known", Tone.DOUBTFUL
    valid = f"until {shown_time(ends)}"
    if begins is not None:
        valid = f"from {shown_time(begins)} {valid}"
    if left_s < 0:
        return f"EXPIRED {span(-left_s)} ago, valid {valid}", Tone.BAD
    if age_s is not None and age_s < 0:
        return f"NOT VALID for another {span(-age_s)}, valid {valid}", Tone.BAD
    return f"expires in {span(left_s)}, valid {valid}", Tone.PLAIN


def _served(envoy: Mapping[str, object], now: datetime) -> Iterator[Row]:
    # Envoy names a certificate once for each listener and cluster that has it.
    leaves = {_serial(chain[0]): chain[0] for chain in _chains(envoy, "cert_chain")}
    if not leaves:
        yield Row("Envoy serves", "no certificate", Tone.BAD)
    for leaf in leaves.values():
        life, tone = _life(moment(leaf, "valid_from"), moment(leaf, "expiration_time"), now)
        yield Row("Envoy serves", f"serial {short_serial(_serial(leaf))}, {life}", tone)
        names = [
            str(value)
            for name in objects(leaf, "subject_alt_names")
            for value in name.values()
            if isinstance(value, str)
        ]
        yield Row("names", ", ".join(names), below=True)
    roots = {_serial(each) for chain in _chains(envoy, "ca_cert") for each in chain}
    yield Row("Envoy trusts", f"roots {_listed(roots)}" if roots else "no roots")
