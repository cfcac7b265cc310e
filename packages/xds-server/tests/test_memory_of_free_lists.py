"""Objects that asyncio keeps for the next time: what a peak left in its lists is exchanged."""

from __future__ import annotations

import asyncio

from xds_server._free_lists import renew_free_lists

KEPT = 255
"""As many iterators of futures as asyncio keeps."""


def kept_iterators(future: asyncio.Future[None]) -> set[int]:
    """Where those lie that the list gives out next; they go back to it."""
    return {id(iterator) for iterator in [future.__await__() for _ in range(KEPT)]}


async def test_what_a_free_list_keeps_is_exchanged() -> None:
    future = asyncio.get_running_loop().create_future()
    at_the_peak = [future.__await__() for _ in range(4 * KEPT)]
    at_the_peak.clear()
    before = kept_iterators(future)
    await renew_free_lists()
    assert kept_iterators(future).isdisjoint(before)
    future.cancel()


async def test_nothing_is_left_to_be_called() -> None:
    loop = asyncio.get_running_loop()
    before = len(asyncio.all_tasks())
    await renew_free_lists()
    assert len(asyncio.all_tasks()) == before
    turns: list[str] = []
    loop.call_soon(turns.append, "next")
    await asyncio.sleep(0)
    assert turns == ["next"]
