"""An agent that was stopped for longer than half of its certificate's life renews at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mesh_e2e import (
    constant_load,
    expiry,
    failures_before,
    handshake_each,
    issued_to,
    mesh_of,
    short_lived,
)
from mesh_testkit import until

LIFETIME_S = 14


async def test_an_agent_that_was_suspended_renews_when_it_goes_on_without_a_storm(
    tmp_path: Path, record: Callable[[str, object], None]
) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(short_lived(LIFETIME_S), tmp_path) as mesh:
        backend = mesh.workload("backend")
        async with constant_load(handshake_each(mesh), rate_per_s=100) as load:
            await load.until_answered(1)
            assert backend.agent.pid is not None
            ends = expiry(backend)
            ends_at = loop.time() + (ends - datetime.now(UTC)).total_seconds()
            before = issued_to(mesh, backend)
            os.kill(backend.agent.pid, signal.SIGSTOP)
            try:
                await until(
                    lambda: datetime.now(UTC) > ends - timedelta(seconds=LIFETIME_S * 0.4),
                    what="six tenths of the certificate's life",
                )
                assert issued_to(mesh, backend) == before
            finally:
                resumed = loop.time()
                os.kill(backend.agent.pid, signal.SIGCONT)
            await until(lambda: issued_to(mesh, backend) != before, what="a new certificate")
            renewed_at = loop.time()
            record("agent goes on -> a new certificate", f"{renewed_at - resumed:.2f} s")
            await load.until_answered(200)  # two seconds, in which a storm would show
            record("certificates asked for then", len(issued_to(mesh, backend)) - len(before))
            assert len(issued_to(mesh, backend)) <= len(before) + 2
        record("load", load.report.summary())
        assert failures_before(load.report, ends_at=ends_at, renewed_at=renewed_at) == []
