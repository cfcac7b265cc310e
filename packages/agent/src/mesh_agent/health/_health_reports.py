"""Checks the application again and again, and reports each change of its health upstream.

The report is a request without a subscription on Envoy's configuration stream: of the type
`istio.v1.HealthInformation`, with an `error_detail` if the application is not healthy. The relay
keeps the newest one, and sends it on each stream. Source: Istio's agent and `istio.v1` API.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mesh_agent.health._health_config import HealthCheckConfig
from mesh_lifecycle import Readiness, in_background
from mesh_protos.type_urls import HEALTH_INFORMATION
from mesh_status_server import PROBE_SOURCES

if TYPE_CHECKING:
    from mesh_probes import Verdict

log = logging.getLogger(__name__)


class Reports(Protocol):
    """The relay, as far as health is reported over it."""

    def inject(self, type_url: str, *, error: str | None = None) -> None:
        """Send a request of this type, now and on each later stream."""


class HealthReports:
    """The application's health, as far as it is known."""

    def __init__(self, config: HealthCheckConfig) -> None:
        self._config = config
        self.healthy: bool | None = None
        """The latest verdict; None before the first."""
        self.reason = ""
        self.since: datetime | None = None

    def record(self, verdict: "Verdict") -> None:
        """Take a verdict that differs from the one before."""
        self.healthy, self.reason = verdict.healthy, verdict.reason
        self.since = datetime.now(UTC)
        if verdict.healthy:
            log.info("the application is healthy")
        else:
            log.warning("the application is not healthy", extra={"reason": verdict.reason})

    def describe(self) -> Mapping[str, object]:
        """Return the check and its latest verdict."""
        thresholds = self._config.thresholds
        return {
            "probe": type(self._config.probe.action).__name__,
            "host": self._config.host,
            "period_s": thresholds.period_s,
            "healthy": self.healthy,
            "reason": self.reason,
            "since": None if self.since is None else self.since.isoformat(),
        }


@asynccontextmanager
async def health_reports(
    config: HealthCheckConfig | None, *, readiness: Readiness, relay: Reports
) -> AsyncIterator[HealthReports | None]:
    """Check and report while the block runs; without a config, yields None.

    Begins when the agent is ready for the first time; while it is not ready later, the application
    counts as not healthy.
    """
    if config is None:
        yield None
        return
    reports = HealthReports(config)
    async with in_background(_check(config, reports, readiness, relay), name="health reports"):
        yield reports


async def _check(
    config: HealthCheckConfig, reports: HealthReports, readiness: Readiness, relay: Reports
) -> None:
    from mesh_probes import check, watching_health

    def report(verdict: "Verdict") -> None:
        reports.record(verdict)
        relay.inject(HEALTH_INFORMATION, error=None if verdict.healthy else verdict.reason)

    await readiness.wait_ready()
    once = partial(check, config.probe, host=config.host, sources=usable_sources())
    async with watching_health(once, config.thresholds, report=report, not_ready=readiness.reasons):
        await asyncio.Event().wait()


def usable_sources() -> tuple[str, ...]:
    """Return those of the source addresses that this machine has.

    Rules of iptables let connections from these pass Envoy by. Without such rules they
    are not needed, and `::6` has to be given to the machine first.
    """
    return tuple(address for address in PROBE_SOURCES if _can_bind(address))


def _can_bind(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError as error:
        # Out of descriptors, say: that tells nothing of the address.
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True
