from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envoy_supervisor._watch import changes, content_hash
from mesh_lifecycle.testing import ManualClock


class Told:
    """What `changes` has yielded so far."""

    def __init__(self, watch: AsyncIterator[str]) -> None:
        self.hashes: list[str] = []
        self._watch = watch

    async def listen(self) -> None:
        async for found in self._watch:
            self.hashes.append(found)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def listening(clock: ManualClock, *paths: Path) -> tuple[Told, asyncio.Task[None]]:
    told = Told(changes(paths, poll_s=1, minimum_delay_s=10, clock=clock))
    task = asyncio.create_task(told.listen(), name="listen")
    await clock.advance(1)
    return told, task


async def finish(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_a_change_is_told_when_it_has_settled(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    told, task = await listening(clock, file)
    file.write_text("22")
    await clock.advance(1)
    file.write_text("333")
    await clock.advance(1)
    assert told.hashes == []
    await clock.advance(1)
    assert told.hashes == [content_hash([file])]
    await finish(task)


async def test_changes_close_together_become_one(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    told, task = await listening(clock, file)
    for length in range(2, 7):
        file.write_text("x" * length)
        await clock.advance(2)
    assert len(told.hashes) == 1
    await clock.advance(10)
    assert len(told.hashes) == 2
    assert told.hashes[-1] == content_hash([file])
    await finish(task)


async def test_touching_a_file_is_no_change(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    told, task = await listening(clock, file)
    file.unlink()
    file.write_text("1")
    await clock.advance(20)
    assert told.hashes == []
    await finish(task)


async def test_a_swapped_directory_link_is_a_change(tmp_path: Path, clock: ManualClock) -> None:
    """As Kubernetes publishes a new version of a mounted volume."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "key").symlink_to("..data/key")
    told, task = await listening(clock, tmp_path / "key")
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "..data")
    await clock.advance(3)
    assert told.hashes == [content_hash([tmp_path / "key"])]
    await finish(task)


async def test_files_may_come_and_go(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "a"
    told, task = await listening(clock, file)
    file.write_text("1")
    await clock.advance(20)
    file.unlink()
    await clock.advance(20)
    assert len(told.hashes) == 2
    assert told.hashes[-1] == content_hash([])
    await finish(task)


def test_the_hash_tells_which_file_has_which_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("12")
    second.write_text("3")
    before = content_hash([first, second])
    first.write_text("1")
    second.write_text("23")
    assert content_hash([first, second]) != before
