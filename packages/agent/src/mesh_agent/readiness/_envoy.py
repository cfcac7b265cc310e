"""Readiness by Envoy: it has its configuration and its workers have started.

Both are read from Envoy's stats and remembered once they hold: an Envoy that is draining, or whose
control plane is away, goes on being ready, until its process ends. Source: the readiness probe of
Istio's sidecar.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import envoy_supervisor
import xds_proxy
from mesh_lifecycle import Condition

log = logging.getLogger(__name__)

STATS_FILTER = (
    r"^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$"
    r"|^server\.state$|^listener_manager\.workers_started$"
)

_STATES = {0: "LIVE", 1: "DRAINING", 2: "PRE_INITIALIZING", 3: "INITIALIZING"}


class HasStats(Protocol):
    """The part of Envoy's admin interface that is asked here."""

    async def stats(self, pattern: str, /) -> Mapping[str, int | str]:
        """Returns the stats whose names match; raises `AdminError`."""


class WatchedEnvoy(Protocol):
    """An Envoy that is started again when it ends."""

    @property
    def pid(self) -> int: ...

    @property
    def admin(self) -> HasStats: ...

    async def wait_down(self) -> None:
        """Wait until a process ends and no other Envoy serves in its place."""


class HasRelayStatus(Protocol):
    """The relay, as far as it is asked here."""

    @property
    def status(self) -> xds_proxy.RelayStatus: ...


async def watch_envoy(
    envoy: WatchedEnvoy, ready: Condition, *, poll_s: float, relay: HasRelayStatus
) -> None:
    """Set `ready` once Envoy is configured and live, unset it when it ends; never returns.

    relay: tells how the control plane is, for the reason why Envoy has no configuration.
    """
    while True:
        await _until_good(envoy, ready, poll_s, relay)
        ready.set()
        log.info("envoy ready", extra={"pid": envoy.pid})
        await envoy.wait_down()
        ready.unset("envoy ended by itself and is being started again")


async def _until_good(
    envoy: WatchedEnvoy, ready: Condition, poll_s: float, relay: HasRelayStatus
) -> None:
    seen = EnvoyHealth()
    while True:
        try:
            stats = await envoy.admin.stats(STATS_FILTER)
        except envoy_supervisor.AdminError as error:
            ready.unset(str(error))
        else:
            seen, fault = judge(seen, stats, control_plane=describe_control_plane(relay.status))
            if seen.good:
                return
            ready.unset(fault or "not yet")
        await asyncio.sleep(poll_s)


def describe_control_plane(status: xds_proxy.RelayStatus) -> str:
    """Returns in words whether the control plane answers, for an Envoy without configuration."""
    if status.connected:
        return "it answers, and has sent none that is complete"
    return status.last_error or "it has not answered yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyHealth:
    """Which of the two conditions held at some time since Envoy's process started."""

    configured: bool = False
    live: bool = False

    @property
    def good(self) -> bool:
        return self.configured and self.live


def judge(
    seen: EnvoyHealth, stats: Mapping[str, int | str], *, control_plane: str
) -> tuple[EnvoyHealth, str | None]:
    """Take in a reading; returns what is known now and, if that is not good, the reason.

    control_plane: how the control plane is, in words, for an Envoy that has nothing from it.
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
