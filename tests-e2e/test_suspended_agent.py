"""An agent that was stopped for longer than half of its certificate's life renews at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mesh_e2e import Target, constant_load, issued_to, mesh_of, until

LIFETIME_S = 10
MESH = f"""\
    mesh: {{certificateLifetime: {LIFETIME_S}s, drain: 1s}}
    workloads:
      - name: backend
        ports: [{{port: 8080}}, {{port: 9000, protocol: tcp}}]
        command: ECHO
        env: {{PORTS: 8080 9000}}
      - {{name: frontend}}
"""


async def test_an_agent_that_was_suspended_renews_when_it_goes_on_without_a_storm(
    tmp_path: Path, record: Callable[[str, object], None]
) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(MESH, tmp_path) as mesh:
        backend = mesh.workload("backend")
        target = Target(host=mesh.workload("frontend").instance.addresses.outbound, port=9000)
        async with constant_load(target, rate_per_s=100) as load:
            await load.until_answered(1)
            assert backend.agent.pid is not None
            assert backend.status is not None
            assert backend.status.not_after is not None
            ends = backend.status.not_after
            before = issued_to(mesh, backend)
            os.kill(backend.agent.pid, signal.SIGSTOP)
            try:
                await until(
                    lambda: datetime.now(UTC) > ends - timedelta(seconds=LIFETIME_S * 0.3),
                    what="seven tenths of the certificate's life",
                )
                assert issued_to(mesh, backend) == before
            finally:
                resumed = loop.time()
                os.kill(backend.agent.pid, signal.SIGCONT)
            await until(lambda: issued_to(mesh, backend) != before, what="a new certificate")
            record("agent goes on -> a new certificate", f"{loop.time() - resumed:.2f} s")
            await load.until_answered(200)  # two seconds, in which a storm would show
            record("certificates asked for then", len(issued_to(mesh, backend)) - len(before))
            assert len(issued_to(mesh, backend)) <= len(before) + 2
        record("load", load.report.summary())
        assert load.report.failures == []
