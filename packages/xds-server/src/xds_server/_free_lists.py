"""Free lists that nothing empties, exchanged for ones whose objects lie close together.

asyncio and uvloop keep a few hundred freed objects of some kinds for the next time they need one.
The first to be freed are kept, and after a peak of clients each of those lies in a page that
nothing else is in any more: some 700 pages, 3 MB, for 90 kB.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

_LONGEST = 256
"""No list is longer: asyncio keeps 255 iterators of futures, uvloop 250 handles of each kind."""
_LATER_S = 1.0
"""uvloop has timers only for what is not at once."""


async def renew_free_lists() -> None:
    """Empty the lists and fill them anew. Takes a turn of the event loop, and some 2 ms."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    twice = range(2 * _LONGEST)
    context = Context()  # one for all: contexts have a free list, too, which a collection empties
    timers = [loop.call_later(_LATER_S, _nothing, context=context) for _ in twice]
    for timer in timers:
        timer.cancel()
    kinds: tuple[list[Any], ...] = (
        [loop.call_soon(_nothing, context=context) for _ in twice],
        [future.__await__() for _ in twice],
        timers,
    )
    del timers, timer
    await asyncio.sleep(0)  # the loop lets go of the handles
    for objects in kinds:
        # The first half came off the list, which is empty now and takes what is freed first.
        del objects[_LONGEST:]
        objects.clear()


def _nothing() -> None:
    pass
