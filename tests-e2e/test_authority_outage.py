"""The certificate authority is away: nobody notices within a certificate's life, and beyond it
the workload has no identity, until the authority is back.
"""

import asyncio
import math
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mesh_e2e import Target, Unanswered, constant_load, issued_to, mesh_of, send, until
from mesh_local import RunningMesh, RunningWorkload

Record = Callable[[str, object], None]

LIFETIME_S = 16  # half of it has to suffice for a control plane to start on a busy machine
MESH = f"""\
    mesh: {{certificateLifetime: {LIFETIME_S}s, drain: 1s}}
    workloads:
      - name: backend
        ports: [{{port: 8080}}, {{port: 9000, protocol: tcp}}]
        command: ECHO
        env: {{PORTS: 8080 9000}}
      - {{name: frontend}}
"""


def handshake_each(mesh: RunningMesh) -> Target:
    """The backend's TCP port: each connection there is a new handshake between the Envoys."""
    return Target(host=mesh.workload("frontend").instance.addresses.outbound, port=9000)


def expiry(workload: RunningWorkload) -> datetime:
    assert workload.status is not None
    assert workload.status.not_after is not None
    return workload.status.not_after


def age_s(workload: RunningWorkload) -> float:
    return LIFETIME_S - (expiry(workload) - datetime.now(UTC)).total_seconds()


def serials(mesh: RunningMesh) -> list[str | None]:
    return [each.status.serial if each.status is not None else None for each in mesh.workloads]


def kill_control_plane(mesh: RunningMesh, pid: int | None = None) -> None:
    pid = pid or mesh.control_plane.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def another_control_plane(mesh: RunningMesh) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start what the mesh's control plane was, once more."""
    spec = mesh.control_plane.spec
    with spec.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *spec.arguments,
            env=dict(spec.environment),
            cwd=spec.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def until_listening(mesh: RunningMesh) -> float:
    """Wait until the secure port takes connections; returns the loop's time of it."""
    host, _, port = mesh.plan.discovery_address.rpartition(":")
    async with asyncio.timeout(20):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
                await writer.wait_closed()
                return asyncio.get_running_loop().time()
            await asyncio.sleep(0.02)


async def until_answered(target: Target) -> float:
    async with asyncio.timeout(30):
        while True:
            with suppress(OSError, Unanswered):
                if (await send(target))[0] == 200:
                    return asyncio.get_running_loop().time()
            await asyncio.sleep(0.02)


async def verified_handshake(mesh: RunningMesh, workload: str) -> None:
    """Make a handshake that checks the server's certificate against the mesh's root."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(mesh.state.ca / "root-cert.pem")
    inbound = mesh.workload(workload).instance.addresses.inbound
    async with asyncio.timeout(5):
        _, writer = await asyncio.open_connection(inbound, 8080, ssl=context, server_hostname="")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_an_outage_shorter_than_a_certificate_s_life_is_not_noticed_and_a_longer_one_heals(
    tmp_path: Path, record: Record
) -> None:
    async with mesh_of(MESH, tmp_path) as mesh:
        target, backend = handshake_each(mesh), mesh.workload("backend")
        await until_answered(target)
        async with constant_load(target, rate_per_s=100) as load:
            before, now = serials(mesh), asyncio.get_running_loop().time
            end = min(map(expiry, mesh.workloads)) - datetime.now(UTC)
            ends_at = now() + end.total_seconds()
            kill_control_plane(mesh)
            await until(
                lambda: min(map(age_s, mesh.workloads)) > LIFETIME_S / 2 + 1,
                what="certificates beyond the time of their renewal",
            )
            assert serials(mesh) == before
            async with another_control_plane(mesh) as back:
                await until_listening(mesh)
                await until(lambda: not set(before) & set(serials(mesh)), what="everyone's renewal")
                renewed_at = now()
                await load.until_answered(100)
                kill_control_plane(mesh, back.pid)
                await back.wait()
        record("short outage", load.report.summary())
        record("certificates' end - renewal", f"{ends_at - renewed_at:.2f} s")
        # A machine too busy to start a control plane within half a life made the outage a long one.
        noticed_from = math.inf if renewed_at < ends_at else ends_at
        assert [each for each in load.report.failures if each.failed_at < noticed_from] == []

        ends = max(map(expiry, mesh.workloads))
        await verified_handshake(mesh, "backend")
        await until(
            lambda: datetime.now(UTC) > ends + timedelta(seconds=1), what="the certificates' end"
        )
        with pytest.raises((ssl.SSLError, ConnectionError)) as refused:
            await verified_handshake(mesh, "backend")
        record("handshake with an expired certificate", refused.value)
        with pytest.raises((Unanswered, ConnectionError)):
            await send(target)
        await until(lambda: backend.status and backend.status.serial is None, what="withdrawal")
        issued = len(issued_to(mesh, backend))

        async with another_control_plane(mesh):
            returned = await until_listening(mesh)
            took = await until_answered(target) - returned
            record("authority's return -> answers", f"{took:.2f} s")
            await verified_handshake(mesh, "backend")
            await until(lambda: all(serials(mesh)), what="everyone's certificate")
            async with constant_load(target, rate_per_s=100) as load:
                await load.until_answered(50)
            assert load.report.failures == []
            record("certificates asked for to recover", len(issued_to(mesh, backend)) - issued)
