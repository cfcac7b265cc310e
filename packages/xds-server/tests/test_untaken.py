"""Responses that clients have not taken: how long they wait, and how much there is of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from xds_server._untaken import Untaken


class Reader:
    def __init__(self) -> None:
        self.closed: list[tuple[float, int, str]] = []

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        self.closed.append((waited_s, size, reason))


@pytest.fixture
def untaken(clock: Any) -> Untaken:
    return Untaken(longest_s=60.0, max_bytes=1000, slow_s=1.0, clock=clock)


async def test_who_has_not_read_for_the_longest_time_allowed_is_closed(
    untaken: Untaken, clock: Any
) -> None:
    task = asyncio.create_task(untaken.run())
    slow, quick = Reader(), Reader()
    untaken.begin(slow, 100)
    for _ in range(61):
        untaken.begin(quick, 10)
        assert untaken.end(quick) == 0
        await clock.advance(1.0)
    assert [(waited_s, size) for waited_s, size, _ in slow.closed] == [(60.0, 100)]
    assert quick.closed == []
    assert untaken.bytes == 0
    untaken.end(slow)  # its write is given up, which counts for nothing any more
    assert untaken.bytes == 0
    task.cancel()


async def test_with_too_much_waiting_those_that_wait_longest_are_closed(
    untaken: Untaken, clock: Any
) -> None:
    first, second, third = Reader(), Reader(), Reader()
    untaken.begin(first, 600)
    await clock.advance(1.5)
    untaken.begin(second, 300)
    untaken.begin(third, 300)
    assert (len(first.closed), len(second.closed), len(third.closed)) == (1, 0, 0)
    assert untaken.bytes == 600


async def test_who_may_still_be_reading_is_left_alone_however_much_it_is(
    untaken: Untaken, clock: Any
) -> None:
    task = asyncio.create_task(untaken.run())
    large = Reader()
    untaken.begin(large, 5000)
    await clock.advance(0.5)
    assert large.closed == []
    await clock.advance(1.0)
    assert len(large.closed) == 1
    task.cancel()


async def test_without_a_longest_time_nobody_is_closed_for_it(clock: Any) -> None:
    untaken = Untaken(longest_s=None, max_bytes=1000, slow_s=1.0, clock=clock)
    task = asyncio.create_task(untaken.run())
    reader = Reader()
    untaken.begin(reader, 100)
    for _ in range(5):
        await clock.advance(100)
    assert reader.closed == []
    task.cancel()
