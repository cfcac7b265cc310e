"""Readiness by Envoy: it has its configuration and its workers have started.

Both are read from Envoy's stats and remembered once they hold: an Envoy that is draining, or whose
control plane is away, goes on being ready, until its process ends. Source: the readiness probe of
Istio's sidecar.

The reasons are of this moment: counters say that something was refused at some time, so what is
refused now is taken from the relay.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

import msgspec

import envoy_supervisor
import xds_proxy
from mesh_agent.readiness._gateway import DumpsConfiguration, no_listener_yet
from mesh_agent.readiness._refusals import refusals
from mesh_agent.readiness._stale import describe_unusable
from mesh_agent.readiness._warming import warming_fault
from mesh_lifecycle import Condition
from mesh_protos import type_urls

log = logging.getLogger(__name__)

STATS_FILTER = (
    r"^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$"
    r"|^server\.state$|^listener_manager\.workers_started$|^cluster_manager\.warming_clusters$"
)

_MOST_FOR_SOCKETS_S = 1.0
"""Some milliseconds are enough unless a listener warms; a service need not wait for that."""
_SLOWEST_POLL_S = 1.0
_SLOWER = 1.05
"""Of each wait for the next reading: about a twentieth of the time that Envoy has taken so far."""

_STATES = {0: "LIVE", 1: "DRAINING", 2: "PRE_INITIALIZING", 3: "INITIALIZING"}


class HasStats(DumpsConfiguration, Protocol):
    """The part of Envoy's admin interface that is asked here."""

    async def stats(self, pattern: str, /) -> Mapping[str, int | str]:
        """Return the stats whose names match; raises `AdminError`."""


class WatchedEnvoy(Protocol):
    """An Envoy that is started again when it ends."""

    @property
    def pid(self) -> int: ...

    @property
    def admin(self) -> HasStats: ...

    async def wait_retained(self, timeout_s: float, /) -> None:
        """Wait until a crash would refuse no connection."""

    async def wait_down(self) -> None:
        """Wait until a process ends and no other Envoy serves in its place."""


class HasRelayStatus(Protocol):
    """The relay, as far as it is asked here."""

    @property
    def status(self) -> xds_proxy.RelayStatus: ...


async def watch_envoy(
    envoy: WatchedEnvoy,
    ready: Condition,
    *,
    poll_s: float,
    relay: HasRelayStatus,
    needs_listeners: bool = False,
) -> None:
    """Set `ready` once Envoy is configured and live, unset it when it ends; never returns.

    poll_s: how soon Envoy is asked again at first; longer while it takes longer, up to a second.
    relay: tells how the control plane is, and what is refused, for the reason.
    needs_listeners: not before the control plane has sent a listener (see docs/decisions/0022).
    """
    while True:
        await _until_good(envoy, ready, poll_s, relay, needs_listeners=needs_listeners)
        # Who is ready gets connections, and they shall outlive an Envoy that crashes at once.
        await envoy.wait_retained(_MOST_FOR_SOCKETS_S)
        ready.set()
        log.info("envoy ready", extra={"pid": envoy.pid})
        await envoy.wait_down()
        ready.unset("envoy ended by itself and is being started again")


async def _until_good(
    envoy: WatchedEnvoy,
    ready: Condition,
    poll_s: float,
    relay: HasRelayStatus,
    *,
    needs_listeners: bool,
) -> None:
    seen = EnvoyHealth()
    while True:
        fault: str | None
        try:
            stats = await envoy.admin.stats(STATS_FILTER)
            seen, fault = assess(seen, stats, relay=relay.status)
            if fault is None and needs_listeners:
                fault = await no_listener_yet(envoy.admin)
            if fault is not None and (warming := await warming_fault(envoy.admin, stats)):
                fault = f"{fault}; clusters: {warming}"
        except envoy_supervisor.AdminError as error:
            fault = str(error)
        if fault is None:
            return
        ready.unset(fault)
        await asyncio.sleep(poll_s)
        poll_s = min(_SLOWEST_POLL_S, poll_s * _SLOWER)


def describe_control_plane(status: xds_proxy.RelayStatus) -> str:
    """Return in words whether the control plane answers, for an Envoy without configuration."""
    if status.connected:
        return "it answers, and has sent none that is complete"
    reason = status.last_error or "it has not answered yet"
    unusable = describe_unusable(status)
    return f"{reason}; saved configuration is not used: {unusable}" if unusable else reason


class EnvoyHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the two conditions held at some time since Envoy's process started."""

    configured: bool = False
    live: bool = False

    @property
    def good(self) -> bool:
        return self.configured and self.live


def assess(
    seen: EnvoyHealth, stats: Mapping[str, int | str], *, relay: xds_proxy.RelayStatus
) -> tuple[EnvoyHealth, str | None]:
    """Take in a reading; returns what is known now and, if that is not good, the reason.

    relay: how the control plane is, and what of it is refused, for an Envoy without configuration.
    """
    fault = None if seen.configured else _configuration_fault(stats, relay)
    if fault is not None:
        return EnvoyHealth(configured=False, live=seen.live), fault
    live = seen.live or _liveness_fault(stats) is None
    if not live:
        return EnvoyHealth(configured=True, live=False), _liveness_fault(stats)
    return EnvoyHealth(configured=True, live=True), None


def _count(stats: Mapping[str, int | str], name: str) -> int:
    value = stats.get(name, 0)
    return value if isinstance(value, int) else 0


_NEEDED = {
    type_urls.CLUSTER: ("clusters (CDS)", "cluster_manager.cds"),
    type_urls.LISTENER: ("listeners (LDS)", "listener_manager.lds"),
}


def _configuration_fault(
    stats: Mapping[str, int | str], relay: xds_proxy.RelayStatus
) -> str | None:
    missing = {
        type_url: name
        for type_url, (name, prefix) in _NEEDED.items()
        if not _count(stats, f"{prefix}.update_success")
    }
    if not missing:
        return None
    refused = [said for type_url, said in refusals(relay.types) if type_url in missing]
    # Envoy may have its configuration from elsewhere than the relay: then only counts are known.
    refused += [
        f"{name}, {count} times"
        for type_url, name in missing.items()
        if type_url not in relay.types
        and (count := _count(stats, f"{_NEEDED[type_url][1]}.update_rejected"))
    ]
    if refused:
        return f"configuration received from the control plane, but rejected: {'; '.join(refused)}"
    if len(missing) == len(_NEEDED):
        how = describe_control_plane(relay)
        return f"configuration not received from the control plane ({how})"
    return (
        "configuration not fully received from the control plane: "
        f"there are no {', '.join(missing.values())} yet"
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
