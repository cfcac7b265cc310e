import asyncio

import pytest

from certclient import FeedClosed
from certclient.feed._feed import Feed


async def test_a_slow_subscriber_sees_the_newest_and_every_subscriber_the_last() -> None:
    feed = Feed(0)
    seen: dict[int, list[int]] = {1: [], 2: [], 7: []}

    async def subscriber(pauses: int) -> None:
        version = 0
        while seen[pauses][-1:] != [99]:
            version = await feed.wait_newer(version)
            seen[pauses].append(feed.value)
            for _ in range(pauses):
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for pauses in seen:
            group.create_task(subscriber(pauses))
        for value in range(1, 100):
            feed.publish(value)
            if value % 3 == 0:
                await asyncio.sleep(0)
    for values in seen.values():
        assert values == sorted(set(values))
    assert len(seen[7]) < len(seen[1])


async def test_a_closed_feed_still_tells_its_last_value() -> None:
    feed = Feed("first")
    feed.publish("last")
    feed.close()
    assert await feed.wait_newer(0) == 1
    with pytest.raises(FeedClosed):
        await feed.wait_newer(1)


async def test_closing_wakes_who_waits() -> None:
    feed = Feed("only")
    waiter = asyncio.create_task(feed.wait_newer(0))
    await asyncio.sleep(0)
    feed.close()
    with pytest.raises(FeedClosed):
        await waiter


async def test_a_cancelled_wait_loses_nothing() -> None:
    feed = Feed("old")
    waiter = asyncio.create_task(feed.wait_newer(0))
    await asyncio.sleep(0)
    waiter.cancel()
    feed.publish("new")
    await asyncio.wait([waiter])
    assert await feed.wait_newer(0) == 1
