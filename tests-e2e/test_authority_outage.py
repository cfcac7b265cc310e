"""The certificate authority is away: no request fails within a certificate's life, and beyond it
the workload has no identity, until the authority is back.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mesh_e2e import (
    Audited,
    Target,
    Unanswered,
    another_control_plane,
    constant_load,
    expiry,
    failures_before,
    handshake_each,
    issued_to,
    kill_control_plane,
    mesh_of,
    renewal_interval_s,
    renewing_early,
    send,
    short_lived,
    until_listening,
)
from mesh_local import RunningMesh
from mesh_testkit import PATIENCE_S, until

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]

LIFETIME_S = 20
_, LATEST_S = renewal_interval_s(LIFETIME_S)


def serials(mesh: RunningMesh) -> list[str | None]:
    return [each.status.serial if each.status is not None else None for each in mesh.workloads]


def known_to_the_authority(mesh: RunningMesh) -> list[Audited]:
    """All that it issued to workloads."""
    return [each for workload in mesh.workloads for each in issued_to(mesh, workload)]


async def until_answered(target: Target) -> float:
    """Wait for an answer; returns the loop's time of it."""

    async def is_answered() -> bool:
        with suppress(OSError, Unanswered):
            return (await send(target))[0] == 200
        return False

    await until(is_answered, what="an answer")
    return asyncio.get_running_loop().time()


async def verified_handshake(mesh: RunningMesh, workload: str) -> None:
    """Make a handshake that checks the server's certificate against the mesh's root."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(mesh.state.ca / "root-cert.pem")
    inbound = mesh.workload(workload).instance.addresses.inbound
    async with asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection(inbound, 8080, ssl=context, server_hostname="")
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_an_outage_shorter_than_a_certificate_s_life_is_not_noticed_and_a_longer_one_heals(
    tmp_path: Path, record: Record
) -> None:
    async with mesh_of(short_lived(LIFETIME_S), tmp_path, environ=renewing_early()) as mesh:
        target, backend = handshake_each(mesh), mesh.workload("backend")
        await until_answered(target)
        async with constant_load(target, rate_per_s=100) as load:
            now = asyncio.get_running_loop().time
            # What is shown here may be renewed right now: then it ends later than this.
            ends = min([await expiry(each) for each in mesh.workloads])
            ends_at = now() + (ends - datetime.now(UTC)).total_seconds()
            kill_control_plane(mesh)
            await mesh.control_plane.wait_ended()
            newest = max(each.not_after for each in known_to_the_authority(mesh))
            before = {each.serial for each in known_to_the_authority(mesh)}
            overdue = timedelta(seconds=LIFETIME_S - LATEST_S - 1)
            await until(
                lambda: datetime.now(UTC) > newest - overdue,
                what="certificates beyond the time of their renewal",
            )
            assert set(serials(mesh)) <= {*before, None}  # None: it has not answered in time
            async with another_control_plane(mesh) as back:
                await until_listening(mesh)
                await until(
                    lambda: not {*before, None} & set(serials(mesh)),
                    what="everyone's renewal",
                    seen=lambda: serials(mesh),
                )
                renewed_at = now()
                await load.until_answered(100)
                kill_control_plane(mesh, back.pid)
                await back.wait()
        record("short outage", load.report.summary())
        record("certificates' end - renewal", f"{ends_at - renewed_at:.2f} s")
        assert failures_before(load.report, ends_at=ends_at, renewed_at=renewed_at) == []

        last_end = max(each.not_after for each in known_to_the_authority(mesh))
        await verified_handshake(mesh, "backend")
        await until(
            lambda: datetime.now(UTC) > last_end + timedelta(seconds=1),
            what="the certificates' end",
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
