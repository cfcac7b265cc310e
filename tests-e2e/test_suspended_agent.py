"""An agent that was stopped beyond the time of its certificate's renewal renews at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mesh_e2e import (
    constant_load,
    expiry,
    failures_before,
    handshake_each,
    issued_to,
    mesh_of,
    renewal_interval_s,
    renewing_early,
    short_lived,
)
from mesh_testkit import until

pytestmark = pytest.mark.slow

LIFETIME_S = 60
EARLIEST_S, LATEST_S = renewal_interval_s(LIFETIME_S)


async def test_a_suspended_agent_renews_once_when_it_is_resumed(
    tmp_path: Path, record: Callable[[str, object], None]
) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(short_lived(LIFETIME_S), tmp_path, environ=renewing_early()) as mesh:
        backend = mesh.workload("backend")
        async with constant_load(handshake_each(mesh), rate_per_s=100) as load:
            await load.until_answered(1)
            assert backend.agent.pid is not None
            # The status may be that of the certificate before: then it ends later than this.
            ends = await expiry(backend)
            ends_at = loop.time() + (ends - datetime.now(UTC)).total_seconds()
            os.kill(backend.agent.pid, signal.SIGSTOP)
            beyond = timedelta(seconds=LIFETIME_S - LATEST_S - 2)
            try:
                await until(
                    lambda: datetime.now(UTC) > issued_to(mesh, backend)[-1].not_after - beyond,
                    what="the newest certificate's renewal to be overdue",
                )
                before = issued_to(mesh, backend)
            finally:
                resumed = loop.time()
                os.kill(backend.agent.pid, signal.SIGCONT)
            await until(lambda: issued_to(mesh, backend) != before, what="a new certificate")
            renewed_at = loop.time()
            record("agent goes on -> a new certificate", f"{renewed_at - resumed:.2f} s")
            await load.until_answered(200)  # two seconds, in which a storm would show
            asked = len(issued_to(mesh, backend)) - len(before)
            record("certificates asked for then", asked)
            assert asked <= 2 + (loop.time() - resumed) // EARLIEST_S
        record("load", load.report.summary())
        assert failures_before(load.report, ends_at=ends_at, renewed_at=renewed_at) == []
