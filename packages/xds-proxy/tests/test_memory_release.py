"""Memory is given back when large messages have passed, if the host wants it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mesh_lifecycle import in_background
from mesh_lifecycle.testing import ManualClock
from xds_proxy.writing._memory_release import LARGE_BYTES, MemoryRelease


class Trims:
    """How often memory was given back."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> bool:
        self.count += 1
        return True


@asynccontextmanager
async def releasing(
    clock: ManualClock, trims: Trims, *, quiet_s: float | None = 10.0
) -> AsyncIterator[MemoryRelease]:
    release = MemoryRelease(quiet_s=quiet_s, clock=clock, release=trims)
    async with in_background(release.run(), name="memory"):
        yield release


async def test_it_is_given_back_once_when_no_large_message_has_passed_for_a_while() -> None:
    clock, trims = ManualClock(), Trims()
    async with releasing(clock, trims) as release:
        for _ in range(3):
            release.on_message(LARGE_BYTES)
            await clock.advance(9)
        assert trims.count == 0
        await clock.advance(1)
        assert trims.count == 1
        await clock.advance(1000)
        assert trims.count == 1


async def test_small_messages_neither_cause_nor_delay_it() -> None:
    clock, trims = ManualClock(), Trims()
    async with releasing(clock, trims) as release:
        release.on_message(LARGE_BYTES - 1)
        await clock.advance(1000)
        assert trims.count == 0
        release.on_message(LARGE_BYTES)
        await clock.advance(9)
        release.on_message(1000)
        await clock.advance(1)
        assert trims.count == 1


async def test_a_library_leaves_it_to_its_host() -> None:
    clock, trims = ManualClock(), Trims()
    async with releasing(clock, trims, quiet_s=None) as release:
        release.on_message(100 * LARGE_BYTES)
        await clock.advance(1000)
    assert trims.count == 0
