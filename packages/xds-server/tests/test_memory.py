"""When memory is given back: once, after most clients have gone and it is quiet."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from xds_server._background import in_background
from xds_server._memory import MemoryKeeper, trim


class Kept:
    """Memory that can be given back, and how often it was."""

    def __init__(self) -> None:
        self.given_back = 0

    def give_back(self) -> bool:
        self.given_back += 1
        return True


@pytest.fixture
def kept() -> Kept:
    return Kept()


@asynccontextmanager
async def keeping(clock: Any, kept: Kept) -> AsyncIterator[MemoryKeeper]:
    keeper = MemoryKeeper(quiet_s=10, clock=clock, give_back=kept.give_back)
    async with in_background(keeper.run(), name="memory"):
        yield keeper


async def test_it_is_given_back_once_when_most_have_gone(clock: Any, kept: Kept) -> None:
    async with keeping(clock, kept) as keeper:
        keeper.count(1000)
        keeper.count(400)
        await clock.advance(9.9)
        assert kept.given_back == 0
        await clock.advance(0.1)
        assert kept.given_back == 1
        await clock.advance(100)
        assert kept.given_back == 1
        keeper.count(150)  # from 400: again most of them
        await clock.advance(10)
        assert kept.given_back == 2


async def test_it_waits_until_nobody_comes_or_goes(clock: Any, kept: Kept) -> None:
    async with keeping(clock, kept) as keeper:
        keeper.count(1000)
        for clients in range(400, 0, -100):
            keeper.count(clients)
            await clock.advance(9)
        assert kept.given_back == 0
        await clock.advance(1)
        assert kept.given_back == 1


@pytest.mark.parametrize(("most", "left"), [(1000, 501), (150, 51)])
async def test_it_is_kept_for_those_who_stay(clock: Any, kept: Kept, most: int, left: int) -> None:
    async with keeping(clock, kept) as keeper:
        keeper.count(most)
        keeper.count(left)
        await clock.advance(100)
        assert kept.given_back == 0


async def test_it_is_kept_for_those_who_come_back(clock: Any, kept: Kept) -> None:
    async with keeping(clock, kept) as keeper:
        keeper.count(1000)
        keeper.count(0)
        await clock.advance(5)
        keeper.count(1000)
        await clock.advance(100)
        assert kept.given_back == 0


def test_asking_the_allocator_works_or_does_nothing() -> None:
    assert trim() in ({True, False} if sys.platform == "linux" else {False})
