"""A mesh that renews its certificates every few seconds, and needs them for every connection.

They are renewed long before they end: a machine may be slow for as long as is left of their lives.
"""

import os
from collections.abc import Mapping
from datetime import datetime

from mesh_e2e._load import Failure, LoadReport, Target
from mesh_local import RunningMesh, RunningWorkload
from mesh_testkit import until

_LEFT_AT_RENEWAL = 0.9
_JITTER = 0.01


def renewing_early() -> Mapping[str, str]:
    """An environment in which agents renew when a tenth of a certificate's life has gone by."""
    return {**os.environ, "SECRET_GRACE_PERIOD_RATIO": str(_LEFT_AT_RENEWAL)}


def renewal_interval_s(lifetime_s: float) -> tuple[float, float]:
    """How soon after a certificate the next is asked for by those who renew early: from, to."""
    after = 1 - _LEFT_AT_RENEWAL
    return lifetime_s * (after - _JITTER), lifetime_s * (after + _JITTER)


def short_lived(lifetime_s: int) -> str:
    """Describe a frontend and a backend; see `handshake_each`."""
    return f"""\
    mesh: {{certificateLifetime: {lifetime_s}s, drain: 1s}}
    workloads:
      - name: backend
        ports: [{{port: 8080}}, {{port: 9000, protocol: tcp}}]
        command: ECHO
        env: {{PORTS: 8080 9000}}
      - {{name: frontend}}
"""


def handshake_each(mesh: RunningMesh) -> Target:
    """Return the backend's TCP port: each connection is a new handshake between the Envoys."""
    return Target(host=mesh.workload("frontend").instance.addresses.outbound, port=9000)


async def expiry(workload: RunningWorkload) -> datetime:
    """Return when the certificate ends that the workload's agent has told of."""

    def end() -> datetime | None:
        # Who does not answer in time has no status for a while.
        return workload.status.not_after if workload.status is not None else None

    await until(end, what="a certificate's end", seen=lambda: workload.status)
    ends = end()
    assert ends is not None
    return ends


def failures_before(report: LoadReport, *, ends_at: float, renewed_at: float) -> list[Failure]:
    """Return what failed though certificates were good; times are the loop's.

    A machine too busy to renew within a certificate's life lets it end; failures after that are
    the machine's.
    """
    if renewed_at < ends_at:
        return report.failures
    return [each for each in report.failures if each.failed_at < ends_at]
