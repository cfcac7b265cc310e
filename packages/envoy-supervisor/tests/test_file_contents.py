from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from envoy_supervisor._file_contents import FileContents, content_hash, watching_contents
from mesh_testkit import hanging_mount, until


class ChangeCount:
    """How often a change was reported so far."""

    def __init__(self, contents: FileContents) -> None:
        self.times = 0
        self._contents = contents

    async def listen(self) -> None:
        while True:
            await self._contents.wait_changed()
            self.times += 1

    async def until(self, times: int) -> None:
        await until(lambda: self.times >= times, what=f"{times} changes", seen=lambda: self.times)


@asynccontextmanager
async def listening(*paths: Path) -> AsyncIterator[ChangeCount]:
    async with watching_contents(paths) as contents:
        listener = ChangeCount(contents)
        task = asyncio.create_task(listener.listen(), name="listen")
        try:
            yield listener
        finally:
            task.cancel()
            await asyncio.wait({task})


def write_by_rename(file: Path, text: str) -> None:
    """What happens at once is one change, whenever it is looked at."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.rename(file)


async def test_each_change_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    async with listening(file) as count:
        for times in range(1, 4):
            write_by_rename(file, "x" * times)
            await count.until(times)
        assert count.times == 3


async def test_what_is_written_anew_with_what_it_held_is_no_change(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    for each in (file, other):
        each.write_text("1")
    async with listening(file, other) as count:
        write_by_rename(file, "1")
        write_by_rename(other, "2")
        await count.until(1)
        write_by_rename(file, "1")
        write_by_rename(other, "3")
        await count.until(2)
        assert count.times == 2


async def test_a_swapped_directory_link_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes publishes a new version of a mounted volume."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "key").symlink_to("..data/key")
    async with listening(tmp_path / "key") as count:
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").rename(tmp_path / "..data")
        await count.until(1)


async def test_files_may_come_and_go(tmp_path: Path) -> None:
    file = tmp_path / "a"
    async with listening(file) as count:
        write_by_rename(file, "1")
        await count.until(1)
        file.unlink()
        await count.until(2)


@pytest.mark.slow
async def test_a_file_whose_mount_hangs_holds_up_neither_the_loop_nor_the_other_files(
    tmp_path: Path,
) -> None:
    threads = set(threading.enumerate())
    (tmp_path / "mount").mkdir()
    hung: Sequence[Path] = (tmp_path / "mount" / "file",)
    good = tmp_path / "good"
    good.write_text("1")
    with hanging_mount(tmp_path / "mount"):
        async with listening(*hung, good) as count:
            write_by_rename(good, "2")
            await count.until(1)
    for each in set(threading.enumerate()) - threads:
        each.join()


def test_the_hash_tells_which_file_has_which_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("12")
    second.write_text("3")
    before = content_hash([first, second])
    first.write_text("1")
    second.write_text("23")
    assert content_hash([first, second]) != before
