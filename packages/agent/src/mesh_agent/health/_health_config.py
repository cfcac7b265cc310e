"""How the application's health is checked, from the proxy configuration's `readinessProbe`.

`mesh_probes` is only loaded where there is such a probe.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from istio_settings import ProxyConfig, Settings

if TYPE_CHECKING:
    from mesh_probes import Probe, Thresholds

_FIELD = "readinessProbe"
_LOCALHOST = "REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION"


class HealthCheckConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The check of the application. host: where it is, for a probe that names no host."""

    probe: "Probe"
    thresholds: "Thresholds"
    host: str


def health_check_config(
    settings: Settings, proxy: ProxyConfig, *, addresses: Sequence[str]
) -> HealthCheckConfig | None:
    """Return how health is checked; None if the proxy configuration has no probe.

    addresses: the workload's. The application is asked at the first, as in Istio.
    """
    localhost = settings.flag(_LOCALHOST)
    value = proxy.merged.get(_FIELD)
    if not value:
        return None
    from mesh_probes import ProbeConfigError, parse_readiness_probe

    where = proxy.origins.get(_FIELD, "proxy config")
    if not isinstance(value, dict):
        settings.problems.append(f"{where}: {_FIELD} is {value!r}, it must be an object")
        return None
    try:
        probe, thresholds = parse_readiness_probe(value)
    except ProbeConfigError as error:
        settings.problems.extend(f"{where}: {problem}" for problem in error.problems)
        return None
    host = "localhost" if localhost or not addresses else addresses[0]
    return HealthCheckConfig(probe=probe, thresholds=thresholds, host=host)
