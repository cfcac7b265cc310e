"""A holder whose large requests take the event loop's time waits while others come."""

from __future__ import annotations

import asyncio

from mesh_lifecycle.testing import ManualClock
from xds_server.streams._work_share import FREE_S, WorkShare


async def test_alone_a_holder_never_waits(clock: ManualClock) -> None:
    share = WorkShare(clock)
    for _ in range(100):
        await asyncio.wait_for(share.wait("a"), 5)
        share.count_work("a", 1.0)


async def test_with_others_it_waits_for_a_multiple_of_its_time_and_they_do_not(
    clock: ManualClock,
) -> None:
    share = WorkShare(clock)
    share.on_request("b")
    await share.wait("a")
    share.count_work("a", FREE_S + 1.0)
    waiting = asyncio.create_task(share.wait("a"))
    await clock.advance(2.9)
    assert not waiting.done()
    await asyncio.wait_for(share.wait("b"), 5)
    await clock.advance(0.2)
    assert waiting.done()


async def test_what_takes_little_never_waits(clock: ManualClock) -> None:
    share = WorkShare(clock)
    for _ in range(100):
        share.on_request("b")
        await asyncio.wait_for(share.wait("a"), 5)
        share.count_work("a", 0.01)
        await clock.advance(0.05)


async def test_of_several_requests_that_wait_one_goes_on_at_a_time(clock: ManualClock) -> None:
    share = WorkShare(clock)
    gone: list[int] = []

    async def work(number: int) -> None:
        await share.wait("a")
        gone.append(number)
        share.count_work("a", 1.0)

    share.on_request("b")
    share.count_work("a", FREE_S + 0.1)
    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    await clock.advance(0.5)
    assert len(gone) == 1
    for _ in range(4):
        share.on_request("b")
        await clock.advance(3.1)
    assert len(gone) == 3
    await asyncio.wait(tasks)
