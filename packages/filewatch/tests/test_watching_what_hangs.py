"""A file system that hangs or is slow delays no watch on another."""

import asyncio
import threading
from pathlib import Path

import pytest

from mesh_filewatch import OnEvent, ReadTimedOut, Unwatch, WatchTiming, fetch_bytes, watching
from mesh_testkit import hanging_mount

GUARD_S = 60.0
EVENTS_ONLY = WatchTiming(poll_interval_s=3600, hang_timeout_s=GUARD_S)
"""With it, `wait` returns for events only."""


async def test_a_path_that_hangs_holds_up_no_other_and_is_reported_when_it_answers(
    tmp_path: Path,
) -> None:
    (tmp_path / "mount").mkdir()
    good = tmp_path / "good"
    threads = set(threading.enumerate())
    async with (
        asyncio.timeout(GUARD_S),
        watching(timing=EVENTS_ONLY._replace(hang_timeout_s=0.1)) as watch,
    ):
        with hanging_mount(tmp_path / "mount") as mount:
            for number in range(3):
                await watch.follow([mount / "token", good])
                good.write_bytes(b"%d" % number)
                assert await watch.wait()
            with pytest.raises(ReadTimedOut):
                await fetch_bytes(mount / "token", max_bytes=1, timeout_s=0.1)
        # What is reported first may be the other path, if the look at it took longer than that.
        while str(tmp_path / "mount") not in watch.directories:
            await watch.wait()
            await watch.follow([mount / "token", good])
    for each in set(threading.enumerate()) - threads:
        each.join()


async def test_a_watch_is_ended_though_a_path_hangs(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    (tmp_path / "mount").mkdir()
    with hanging_mount(tmp_path / "mount") as mount:
        async with (
            asyncio.timeout(GUARD_S),
            watching(timing=EVENTS_ONLY._replace(hang_timeout_s=0.1)) as watch,
        ):
            await watch.follow([mount / "token", tmp_path / "good"])
    for each in set(threading.enumerate()) - threads:
        each.join()


async def test_a_watch_that_the_kernel_does_not_take_in_time_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mesh_filewatch._watching._KERNEL_TIMEOUT_S", 0.05)
    let_go = threading.Event()

    def watch_directory(directory: str, on_event: OnEvent) -> Unwatch:
        del directory, on_event
        let_go.wait()
        return lambda: None

    threads = set(threading.enumerate())
    async with (
        asyncio.timeout(GUARD_S),
        watching(watch_directory=watch_directory, timing=EVENTS_ONLY) as watch,
    ):
        await watch.follow([tmp_path / "cert"])
        assert watch.directories == frozenset()
        assert watch.failures
        assert "its file system did not answer within 0.05 s" in str(vars(caplog.records[0]))
        let_go.set()
        monkeypatch.setattr("mesh_filewatch._watching._KERNEL_TIMEOUT_S", GUARD_S)
        await watch.follow([tmp_path / "cert"])
        assert str(tmp_path) in watch.directories
        assert watch.retry_in_s is None
    for each in set(threading.enumerate()) - threads:
        each.join()
