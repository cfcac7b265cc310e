import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mesh_filewatch import (
    NotRegularFile,
    ReadTimedOut,
    fetch_bytes,
    read_bytes,
    read_bytes_with_timeout,
    run_in_thread,
    run_with_timeout,
)
from mesh_testkit import hanging_mount, until

SOON_S = 0.05
GUARD_S = 60.0
"""A timeout for calls that return, on a slow machine."""


class Opener:
    """A reader with one path that hangs until it is released."""

    def __init__(self, hangs: Path) -> None:
        self.hangs = hangs
        self.let_go = threading.Event()
        self.calls: list[Path] = []

    def __call__(self, path: Path, *, max_bytes: int) -> bytes:
        self.calls.append(path)
        if path == self.hangs:
            self.let_go.wait()
        return read_bytes(path, max_bytes=max_bytes)


@contextmanager
def hanging(path: Path) -> Iterator[Opener]:
    opener = Opener(path)
    threads = set(threading.enumerate())
    try:
        yield opener
    finally:
        opener.let_go.set()
        for each in set(threading.enumerate()) - threads:
            each.join()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("bad", "good"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


async def test_a_file_is_fetched(directory: Path) -> None:
    assert await fetch_bytes(directory / "good", max_bytes=100, timeout_s=GUARD_S) == b"good"


async def test_what_is_wrong_with_a_file_is_raised(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(NotRegularFile):
        await fetch_bytes(tmp_path / "fifo", max_bytes=100, timeout_s=GUARD_S)
    with pytest.raises(FileNotFoundError):
        await fetch_bytes(tmp_path / "missing", max_bytes=100, timeout_s=GUARD_S)


async def test_a_file_that_hangs_is_an_error_and_delays_no_other(directory: Path) -> None:
    with hanging(directory / "bad") as opener:
        bad = asyncio.create_task(
            fetch_bytes(directory / "bad", max_bytes=100, timeout_s=SOON_S, read=opener)
        )
        good = await fetch_bytes(directory / "good", max_bytes=100, timeout_s=GUARD_S, read=opener)
        with pytest.raises(ReadTimedOut) as caught:
            await bad

    assert good == b"good"
    assert str(caught.value) == (
        f"{directory / 'bad'}: its file system did not answer within 0.05 s, is its mount hanging?"
    )
    assert isinstance(caught.value, TimeoutError)


async def test_a_path_that_hangs_takes_one_thread_however_often_it_is_read(directory: Path) -> None:
    with hanging(directory / "bad") as opener:
        for _ in range(20):
            with pytest.raises(ReadTimedOut):
                await fetch_bytes(directory / "bad", max_bytes=100, timeout_s=0.01, read=opener)
        # The only reader may begin after the last of them has given up.
        await until(lambda: opener.calls, what="the reader began")
        assert opener.calls == [directory / "bad"]


async def test_a_path_is_read_again_once_its_reader_is_free(directory: Path) -> None:
    with hanging(directory / "bad") as opener:
        with pytest.raises(ReadTimedOut):
            await fetch_bytes(directory / "bad", max_bytes=100, timeout_s=SOON_S, read=opener)
        (directory / "bad").write_bytes(b"newer")
        again = asyncio.create_task(
            fetch_bytes(directory / "bad", max_bytes=100, timeout_s=GUARD_S, read=opener)
        )
        await asyncio.sleep(0)
        opener.let_go.set()

        assert await again == b"newer"


async def test_callers_waiting_for_one_path_share_one_read(directory: Path) -> None:
    with hanging(directory / "bad") as opener:
        asked = [
            asyncio.create_task(
                fetch_bytes(directory / "bad", max_bytes=100, timeout_s=GUARD_S, read=opener)
            )
            for _ in range(50)
        ]
        await until(lambda: bool(opener.calls), what="the reader began")
        await asyncio.sleep(0)
        opener.let_go.set()

        assert set(await asyncio.gather(*asked)) == {b"bad"}
    assert len(opener.calls) == 2, "the first began before the others asked"


async def test_a_directory_that_hangs_takes_few_threads_and_leaves_others_theirs(
    tmp_path: Path,
) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "file").write_bytes(b"good")
    let_go = threading.Event()
    begun: list[int] = []

    def work() -> None:
        begun.append(1)
        let_go.wait()

    threads = set(threading.enumerate())
    asked = [
        asyncio.create_task(run_in_thread(work, path=tmp_path / "bad" / str(n), timeout_s=None))
        for n in range(200)
    ]
    await until(lambda: len(begun) >= 4, what="the threads are at work")

    good = tmp_path / "good" / "file"
    assert await fetch_bytes(good, max_bytes=100, timeout_s=GUARD_S) == b"good"
    assert len(set(threading.enumerate()) - threads) <= 5
    assert len(begun) == 4

    let_go.set()
    await asyncio.gather(*asked)
    assert len(begun) == 200
    for each in set(threading.enumerate()) - threads:
        each.join()


async def test_a_call_without_waiters_does_not_start(directory: Path) -> None:
    with hanging(directory / "bad") as opener:
        first, second = (
            asyncio.create_task(
                fetch_bytes(directory / "bad", max_bytes=100, timeout_s=GUARD_S, read=opener)
            )
            for _ in range(2)
        )
        await until(lambda: bool(opener.calls), what="the reader began")
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        opener.let_go.set()
        await first
    assert len(opener.calls) == 1


async def test_a_thousand_files_are_fetched(tmp_path: Path) -> None:
    paths = [tmp_path / str(n) for n in range(1000)]
    for path in paths:
        path.write_bytes(path.name.encode())

    contents = await asyncio.gather(
        *(fetch_bytes(path, max_bytes=10, timeout_s=GUARD_S) for path in paths)
    )

    assert contents == [path.name.encode() for path in paths]


async def test_a_mount_that_hangs_is_reported(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    (tmp_path / "mount").mkdir()
    (tmp_path / "good").write_bytes(b"good")
    with hanging_mount(tmp_path / "mount") as mount:
        with pytest.raises(ReadTimedOut):
            await fetch_bytes(mount / "token", max_bytes=100, timeout_s=SOON_S)
        assert await fetch_bytes(tmp_path / "good", max_bytes=100, timeout_s=GUARD_S) == b"good"
    for each in set(threading.enumerate()) - threads:
        each.join()


PROGRAM = """
import asyncio, sys
from mesh_filewatch import ReadTimedOut, fetch_bytes

async def main():
    try:
        await fetch_bytes(sys.argv[1], max_bytes=100, timeout_s=0.1)
    except ReadTimedOut as error:
        print(error)

asyncio.run(main())
"""


def test_a_program_ends_though_a_mount_hangs(tmp_path: Path) -> None:
    with hanging_mount(tmp_path) as mount:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(mount / "token")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert ended.returncode == 0, ended.stderr
    assert "its file system did not answer within 0.1 s" in ended.stdout


def test_without_an_event_loop_reading_ends_at_the_timeout(
    directory: Path,
) -> None:
    (directory / "mount").mkdir()
    with hanging_mount(directory / "mount") as mount:
        with pytest.raises(ReadTimedOut) as caught:
            read_bytes_with_timeout(mount / "file", max_bytes=100, timeout_s=SOON_S)
        with pytest.raises(ReadTimedOut):
            run_with_timeout((mount / "file").is_file, path=mount / "file", timeout_s=SOON_S)
        assert (
            read_bytes_with_timeout(directory / "good", max_bytes=100, timeout_s=GUARD_S) == b"good"
        )
    assert "its file system did not answer within 0.05 s" in str(caught.value)
    with pytest.raises(FileNotFoundError):
        read_bytes_with_timeout(directory / "missing", max_bytes=100, timeout_s=GUARD_S)


def test_a_signal_ends_a_program_that_waits_for_a_mount_before_its_event_loop(
    tmp_path: Path,
) -> None:
    program = (
        "import sys; from mesh_filewatch import read_bytes_with_timeout\n"
        "print('reads', flush=True); "
        "read_bytes_with_timeout(sys.argv[1], max_bytes=1, timeout_s=600)"
    )
    with (
        hanging_mount(tmp_path) as mount,
        subprocess.Popen(
            [sys.executable, "-c", program, str(mount / "file")], stdout=subprocess.PIPE
        ) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
