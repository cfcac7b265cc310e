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
    end_of,
    exchange,
    fail_until_delays_are_long,
    patiently,
    planes_for,
    reason_of_failure,
    short_lived_connections,
)
from xds_proxy.testing import control_plane


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not read


def _threads() -> int:
    return threading.active_count()


def _held() -> tuple[int, int]:
    """Return how many descriptors and tasks there are."""
    return _descriptors(), len(asyncio.all_tasks())


async def _no_more_than(before: tuple[int, int]) -> None:
    await until(
        lambda: all(now <= then for now, then in zip(_held(), before, strict=True)),
        what=f"the {before} descriptors and tasks of before",
        seen=_held,
    )


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
                    planes._selection.entries[0].again.due_at = 0.0  # not the delays are tested

            await reconnect(10)
            before = _held()
            threads = _threads()
            await reconnect(100)
            await _no_more_than(before)
            # Threads that read files end by themselves.
            await until(lambda: _threads() <= threads, what=f"{threads} threads", seen=_threads)
            assert planes.statuses[0].streams == 0
            assert not planes._calls


async def test_a_hundred_failures_leave_nothing(root: Path, free_port: Callable[[], int]) -> None:
    async with planes_for(f"127.0.0.1:{free_port()}", root=root) as planes:
        # Files are watched in an outage that lasts, which a hundred failures need not; the watch
        # has descriptors, and begins in a thread.
        await fail_until_delays_are_long(planes)
        await planes._watches_files.wait()
        before = _held()
        for _ in range(100):
            await reason_of_failure(planes)
        await _no_more_than(before)


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
