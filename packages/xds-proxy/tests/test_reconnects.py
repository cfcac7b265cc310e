"""Many reconnects: nothing is left of them, and ordinary ones are not logged."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from mesh_testkit import until
from mesh_testkit.certificates import Authority
from relays import server_credentials
from upstream_planes import (
    RESPONSE,
    ads,
    end_of,
    exchange,
    patiently,
    planes_for,
    short_lived_connections,
)
from xds_proxy.testing import control_plane
from xds_proxy.upstream._upstream_error import UpstreamError


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not read


def _threads() -> int:
    return threading.active_count()


@pytest.fixture
def root(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "root-cert.pem"
    path.write_bytes(authority.root_pem)
    return path


async def test_a_hundred_reconnects_leave_nothing(authority: Authority, root: Path) -> None:
    credentials = server_credentials(authority, "127.0.0.1")
    async with control_plane(credentials=credentials) as plane:
        async with planes_for(plane.address, root=root) as planes:

            async def reconnect(times: int) -> None:
                for number in range(times):
                    async with patiently(planes) as call:
                        stream = await exchange(call, plane)
                        stream.end(grpc.StatusCode.UNAVAILABLE, f"the {number}th")
                        assert (await end_of(call))[0] is grpc.StatusCode.UNAVAILABLE
                    planes._selection.places[0].again.due_at = 0.0  # not the delays are tested

            await reconnect(10)
            before = (_descriptors(), len(asyncio.all_tasks()))
            threads = _threads()
            await reconnect(100)
            await until(
                lambda: (_descriptors(), len(asyncio.all_tasks())) <= before,
                what=f"the {before} descriptors and tasks of before",
                seen=lambda: (_descriptors(), len(asyncio.all_tasks())),
            )
            # Threads that read files end by themselves.
            await until(lambda: _threads() <= threads, what=f"{threads} threads", seen=_threads)
            assert planes.statuses[0].streams == 0
            assert not planes._calls


async def test_a_hundred_failures_leave_nothing(root: Path, free_port: Callable[[], int]) -> None:
    async with planes_for(f"127.0.0.1:{free_port()}", root=root) as planes:

        async def fail(times: int) -> None:
            for _ in range(times):
                with pytest.raises(UpstreamError):
                    async with ads(planes):
                        pass

        await fail(10)
        before = (_descriptors(), len(asyncio.all_tasks()))
        await fail(100)
        await until(
            lambda: (_descriptors(), len(asyncio.all_tasks())) <= before,
            what=f"the {before} descriptors and tasks of before",
            seen=lambda: (_descriptors(), len(asyncio.all_tasks())),
        )


async def test_the_maximum_age_of_connections_is_an_ordinary_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "xds_proxy")
    async with short_lived_connections() as address, planes_for(address) as planes:
        ends = []
        for _ in range(3):
            async with patiently(planes) as call:
                await call.write(b"traffic")
                assert await call.read() == RESPONSE
                ends.append(await end_of(call))
                assert call.failure is None
            assert planes.statuses[0].healthy is True
            assert planes.wait_s < 0.2
            await planes.wait_to_retry()
    assert {code for code, _ in ends} == {grpc.StatusCode.UNAVAILABLE}, ends
    assert not caplog.records
