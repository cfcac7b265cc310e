"""Is Envoy configured and at work? Read from its own stats.

Two verdicts, each remembered once it is good: a proxy that is draining, or whose control plane
is away, goes on being ready. Source: Istio's readiness probe of the sidecar.
"""

from collections.abc import Mapping
from dataclasses import dataclass

STATS_FILTER = (
    r"^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$"
    r"|^server\.state$|^listener_manager\.workers_started$"
)

_STATES = {0: "LIVE", 1: "DRAINING", 2: "PRE_INITIALIZING", 3: "INITIALIZING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyHealth:
    """What has been seen good so far."""

    configured: bool = False
    live: bool = False

    @property
    def good(self) -> bool:
        return self.configured and self.live


def judge(
    seen: EnvoyHealth, stats: Mapping[str, int | str], *, control_plane: str
) -> tuple[EnvoyHealth, str | None]:
    """Take in a reading; returns what is known now and, if that is not good, the reason.

    control_plane: how it stands with the control plane, for an Envoy that has nothing from it.
    """
    fault = None if seen.configured else _configuration_fault(stats, control_plane)
    if fault is not None:
        return EnvoyHealth(configured=False, live=seen.live), fault
    live = seen.live or _liveness_fault(stats) is None
    if not live:
        return EnvoyHealth(configured=True, live=False), _liveness_fault(stats)
    return EnvoyHealth(configured=True, live=True), None


def _count(stats: Mapping[str, int | str], name: str) -> int:
    value = stats.get(name, 0)
    return value if isinstance(value, int) else 0


def _configuration_fault(stats: Mapping[str, int | str], control_plane: str) -> str | None:
    cds_ok = _count(stats, "cluster_manager.cds.update_success")
    cds_bad = _count(stats, "cluster_manager.cds.update_rejected")
    lds_ok = _count(stats, "listener_manager.lds.update_success")
    lds_bad = _count(stats, "listener_manager.lds.update_rejected")
    if cds_ok and lds_ok:
        return None
    if cds_bad or lds_bad:
        fault = "configuration received from the control plane, but rejected"
    elif not cds_ok and not lds_ok:
        fault = f"configuration not received from the control plane ({control_plane})"
    else:
        fault = "configuration not fully received from the control plane"
    return (
        f"{fault}: cds {cds_ok} accepted, {cds_bad} rejected; "
        f"lds {lds_ok} accepted, {lds_bad} rejected"
    )


def _liveness_fault(stats: Mapping[str, int | str]) -> str | None:
    state, workers = stats.get("server.state"), stats.get("listener_manager.workers_started")
    if not isinstance(state, int) or not isinstance(workers, int):
        return "server state is not yet known"
    if state != 0:
        return f"not live, current state is {_STATES.get(state, str(state))}"
    if workers != 1:
        return "workers have not yet started"
    return None
