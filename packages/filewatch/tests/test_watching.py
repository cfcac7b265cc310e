"""Every way of replacing a file is reported, and nothing more than necessary is watched."""

import asyncio
import logging
import os
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mesh_filewatch import (
    DirectoryEvent,
    FileWatch,
    OnEvent,
    Unwatch,
    WatchTiming,
    file_stat,
    read_bytes,
    watching,
)
from mesh_filewatch._watched_entries import watched_entries

GUARD_S = 60.0
EVENTS_ONLY = WatchTiming(poll_interval_s=3600, hang_timeout_s=GUARD_S)
"""With it, `wait` returns for events only, also where resolving a path takes long."""


@asynccontextmanager
async def followed(*paths: Path, directories: tuple[Path, ...] = ()) -> AsyncIterator[FileWatch]:
    async with asyncio.timeout(GUARD_S), watching(timing=EVENTS_ONLY) as watch:
        await watch.follow(paths, directories=directories)
        yield watch


def swap(directory: Path, version: str, files: dict[str, bytes]) -> None:
    """Publish files as Kubernetes does."""
    (directory / version).mkdir()
    for name, content in files.items():
        (directory / version / name).write_bytes(content)
    old = (directory / "..data").readlink() if (directory / "..data").is_symlink() else None
    (directory / "..data_tmp").symlink_to(version)
    (directory / "..data_tmp").rename(directory / "..data")
    for name in files:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    if old is not None:
        for each in (directory / old).iterdir():
            each.unlink()
        (directory / old).rmdir()


def write_in_place(path: Path) -> None:
    path.write_bytes(b"more")


def rename_over(path: Path) -> None:
    path.with_name("new").write_bytes(b"more")
    path.with_name("new").rename(path)


def delete(path: Path) -> None:
    path.unlink()


def delete_and_make_anew(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"more")


def make_it_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("other")


def move_the_directory_away(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


def put_another_directory_in_its_place(path: Path) -> None:
    new = path.parent.with_name("another")
    new.mkdir()
    (new / path.name).write_bytes(b"more")
    path.parent.rename(path.parent.with_name("away"))
    new.rename(path.parent)


def let_others_read_it(path: Path) -> None:
    path.chmod(0o644)


@pytest.mark.parametrize(
    "change",
    [
        write_in_place,
        rename_over,
        delete,
        delete_and_make_anew,
        make_it_a_link,
        move_the_directory_away,
        put_another_directory_in_its_place,
        let_others_read_it,
    ],
)
async def test_a_change_is_yielded(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "certs" / "cert"
    path.parent.mkdir()
    path.write_bytes(b"")
    path.chmod(0o600)
    async with followed(path) as watch:
        change(path)

        assert await watch.wait()


async def test_a_file_that_comes_with_the_directories_above_it_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "cert"
    async with followed(path) as watch:
        path.parent.mkdir(parents=True)
        await watch.wait()
        await watch.follow([path])
        path.write_bytes(b"")

        await watch.wait()


async def test_a_directory_created_anew_with_the_number_of_the_old_one_is_watched(
    tmp_path: Path,
) -> None:
    path = tmp_path / "certs" / "cert"
    path.parent.mkdir()
    async with followed(path) as watch:
        for _ in range(20):  # on many file systems the next directory gets the last one's number
            path.parent.rmdir()
            path.parent.mkdir()
            await watch.wait()
            await watch.follow([path])
            path.write_bytes(b"")
            await watch.wait()
            await watch.follow([path])
            path.unlink()
            await watch.wait()
            await watch.follow([path])


async def test_what_happens_beside_the_files_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "cert"
    path.write_bytes(b"")
    async with followed(path) as watch:
        (tmp_path / "other").write_bytes(b"")
        path.read_bytes()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await watch.wait()


async def test_all_that_is_in_a_directory_is_reported_and_nothing_below_it(tmp_path: Path) -> None:
    (tmp_path / "config" / "below").mkdir(parents=True)
    async with followed(directories=(tmp_path / "config",)) as watch:
        (tmp_path / "config" / "below" / "a.yaml").write_bytes(b"")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await watch.wait()

        (tmp_path / "config" / "a.yaml").write_bytes(b"")
        assert await watch.wait()


async def test_a_thousand_files_of_a_directory_are_followed_by_one_watch(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(1000)]
    for path in paths:
        path.write_bytes(b"first")
    async with followed(*paths) as watch:
        alone = len(watch.directories)
        seen = {path: file_stat(path) for path in paths}
        for path in (paths[0], paths[500], paths[-1]):
            path.write_bytes(b"second")
            while (now := {path: file_stat(path) for path in paths}) == seen:
                await watch.wait()
            await watch.follow(paths)
            assert [each for each in paths if now[each] != seen[each]] == [path]
            seen = now

        assert len(watch.directories) == alone
        assert str(tmp_path) in watch.directories


async def test_all_thousand_files_that_change_at_once_are_reported_together(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(1000)]
    for path in paths:
        path.write_bytes(b"first")
    async with followed(directories=(tmp_path,)) as watch:
        writer = asyncio.create_task(asyncio.to_thread(_write_all, paths))
        wakes = 0
        while {read_bytes(path, max_bytes=10) for path in paths} != {b"second"}:
            await watch.wait()
            wakes += 1
        await writer

    assert wakes < len(paths)


def _write_all(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(b"second")


async def test_the_second_of_two_changes_is_never_lost(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"")
    async with followed(path) as watch:
        for number in range(200):
            path.write_bytes(b"%d first" % number)
            await asyncio.sleep(0.001)
            path.write_bytes(b"%d last" % number)
            while read_bytes(path, max_bytes=100) != b"%d last" % number:
                await watch.wait()
                await watch.follow([path])


async def test_a_file_that_is_half_written_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"whole")
    timing = EVENTS_ONLY._replace(max_settle_s=GUARD_S)
    async with asyncio.timeout(GUARD_S), watching(timing=timing) as watch:
        await watch.follow([path])
        with path.open("wb") as file:
            file.write(b"half")
            file.flush()
            waiting = asyncio.create_task(watch.wait())
            await asyncio.sleep(0.2)
            assert not waiting.done()
            file.write(b" and half")
        await waiting
        assert path.read_bytes() == b"half and half"


async def test_a_file_that_is_never_closed_is_reported_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    async with followed(path) as watch:
        with path.open("wb") as file:
            file.write(b"half")
            file.flush()
            assert await watch.wait()


async def test_a_change_during_a_cancelled_wait_is_reported_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    timing = EVENTS_ONLY._replace(max_settle_s=GUARD_S)
    async with asyncio.timeout(GUARD_S), watching(timing=timing) as watch:
        await watch.follow([path])
        with path.open("wb") as file:
            file.write(b"half")
            file.flush()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await watch.wait()
        assert await watch.wait()


async def test_of_a_thousand_swaps_none_is_read_mixed_and_the_last_is_seen(tmp_path: Path) -> None:
    """A reader that goes through `..data` gets chain and key of one generation."""
    swap(tmp_path, "..0", {"cert": b"0", "key": b"0"})
    done = threading.Event()

    def swapping() -> None:
        for number in range(1, 1001):
            content = b"%d" % number
            swap(tmp_path, f"..{number}", {"cert": content, "key": content})
        done.set()

    looks = 0
    async with followed(tmp_path / "cert", tmp_path / "key") as watch:
        swapper = asyncio.create_task(asyncio.to_thread(swapping))
        last = b""
        while last != b"1000":
            await watch.wait()
            await watch.follow([tmp_path / "cert", tmp_path / "key"])
            try:
                now = await asyncio.to_thread(_through_data, tmp_path)
            except FileNotFoundError:
                watch.mark_changed()  # it was swapped between two of our steps
                continue
            looks += 1
            assert now[0] == now[1]
            last = now[0]
        await swapper
    assert looks > 0


def _through_data(directory: Path) -> tuple[bytes, bytes]:
    version = directory / (directory / "..data").readlink()
    return (version / "cert").read_bytes(), (version / "key").read_bytes()


async def test_a_swap_in_the_middle_of_following_is_not_lost(tmp_path: Path) -> None:
    """The link changes after it was resolved and before it is watched."""
    swap(tmp_path, "..1", {"cert": b"1"})
    watched: list[str] = []

    def watch_directory(directory: str, on_event: OnEvent) -> Unwatch:
        del on_event
        if not watched:
            swap(tmp_path, "..2", {"cert": b"2"})
        watched.append(directory)
        return lambda: None

    async with asyncio.timeout(GUARD_S), watching(watch_directory=watch_directory) as watch:
        await watch.follow([tmp_path / "cert"])

        assert str(tmp_path / "..2") in watch.directories


def test_the_entries_that_decide_about_a_path(tmp_path: Path) -> None:
    root = str(tmp_path)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "..1").mkdir()
    (tmp_path / "cert").symlink_to("..data/cert")
    (tmp_path / "..1" / "cert").touch()
    assert {(root, "cert"), (root, "..data"), (f"{root}/..1", "cert")} <= watched_entries(
        tmp_path / "cert"
    )
    assert (f"{root}/..1", "no") in watched_entries(tmp_path / "..data" / "no" / "such" / "file")
    (tmp_path / "loop").symlink_to("loop")
    assert (root, "loop") in watched_entries(tmp_path / "loop" / "x")


async def test_a_watch_that_fails_is_tried_again_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[str] = []

    def watch_directory(directory: str, on_event: OnEvent) -> Unwatch:
        del on_event
        tried.append(directory)
        if len(tried) < 4:
            raise OSError(28, "inotify watch limit reached")
        return lambda: None

    entries = len({directory for directory, _ in watched_entries(tmp_path / "x")})
    delays = []
    async with asyncio.timeout(GUARD_S), watching(watch_directory=watch_directory) as watch:
        while len(watch.directories) < entries:
            await watch.follow([tmp_path / "x"])
            delays.append(watch.retry_in_s)
        assert watch.failures == 3
    assert delays[-1] is None
    assert all(delay is not None and 0 < delay <= 60 for delay in delays[:-1])
    assert (
        caplog.messages.count(
            "directory can't be watched, looking at its files now and then until it can"
        )
        == 1
    )


async def test_a_directory_that_may_not_be_watched_is_no_success(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may watch everything")
    tmp_path.chmod(0o100)
    try:
        async with followed(tmp_path / "cert") as watch:
            assert watch.retry_in_s is not None
    finally:
        tmp_path.chmod(0o700)


async def test_events_may_come_from_any_thread(tmp_path: Path) -> None:
    tellers: dict[str, OnEvent] = {}

    def watch_directory(directory: str, on_event: OnEvent) -> Unwatch:
        tellers[directory] = on_event
        return lambda: None

    async with (
        asyncio.timeout(GUARD_S),
        watching(watch_directory=watch_directory, timing=EVENTS_ONLY) as watch,
    ):
        await watch.follow([tmp_path / "cert"])
        await asyncio.to_thread(tellers[str(tmp_path)], "cert", DirectoryEvent.CHANGED)
        assert await watch.wait()


async def test_a_watch_that_ends_while_it_begins_leaves_nothing(tmp_path: Path) -> None:
    """Leftovers fail the test that left them."""
    for steps in range(30):
        async with asyncio.timeout(GUARD_S), watching(timing=EVENTS_ONLY) as watch:
            following = asyncio.create_task(watch.follow([tmp_path / "cert"]))
            for _ in range(steps):
                await asyncio.sleep(0)
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


async def test_the_host_programs_loggers_and_warnings_are_unchanged(tmp_path: Path) -> None:
    def host() -> object:
        loggers = (logging.getLogger(name) for name in (None, "watchdog.observers.inotify"))
        return warnings.filters[:], [(each.filters[:], each.handlers[:]) for each in loggers]

    async with followed(tmp_path / "cert"):
        pass
    before = host()
    async with followed(tmp_path / "cert"):
        assert host() == before
    assert host() == before


async def test_two_watches_at_once_report_each_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    async with followed(one) as first, followed(other) as second:
        one.write_bytes(b"")
        assert await first.wait()
        other.write_bytes(b"")
        assert await second.wait()
        one.write_bytes(b"")
        assert await first.wait()


async def test_the_entries_that_changed_are_reported_and_when(tmp_path: Path) -> None:
    async with followed(directories=(tmp_path,)) as watch:
        began = time.monotonic()
        (tmp_path / "a").write_bytes(b"")
        (tmp_path / "b").write_bytes(b"")
        names = set[str]()
        while names != {"a", "b"}:
            assert await watch.wait()
            assert watch.changed is not None
            assert {directory for directory, _ in watch.changed} == {os.path.realpath(tmp_path)}
            names |= {name for _, name in watch.changed}
            assert began <= watch.changed_at <= time.monotonic()

        watch.mark_changed()
        assert await watch.wait()
        any_of_them = watch.changed
        assert any_of_them is None
        (tmp_path / "c").write_bytes(b"")
        assert await watch.wait()
        assert {name for _, name in watch.changed or ()} == {"c"}


async def test_of_very_many_changes_none_is_reported_by_itself(tmp_path: Path) -> None:
    async with followed(directories=(tmp_path,)) as watch:
        for number in range(1100):
            (tmp_path / str(number)).write_bytes(b"")
        names = set[str]()
        while len(names) < 1100:
            assert await watch.wait()
            if watch.changed is None:
                return
            names |= {name for _, name in watch.changed}


async def test_only_following_something_new_is_reported(tmp_path: Path) -> None:
    async with followed(directories=(tmp_path,)) as watch:
        assert not await watch.follow((), directories=(tmp_path,))
        (tmp_path / "below").mkdir()
        assert await watch.follow((), directories=(tmp_path, tmp_path / "below"))
