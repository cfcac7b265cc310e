"""Ends the delay between tries when a file of the credentials changes.

The files are watched only during an outage that lasts, so a healthy workload pays nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

_LOOK_WHETHER_OVER_S = 2.0


async def retry_when_files_change(
    files: Sequence[Path],
    *,
    failing: Callable[[], bool],
    next_change: Callable[[], Awaitable[None]],
    watched: asyncio.Event,
    retry: Callable[[], None],
) -> None:
    """Call `retry` for each change of the files during an outage; runs for ever.

    failing: whether there is an outage. next_change: waits until that may have changed.
    watched: is set while the files are watched.
    """
    from mesh_filewatch import watching  # here, because most relays never need it

    while True:
        while not (files and failing()):
            await next_change()
        async with watching() as watch:
            while failing():
                # Each time, because a link on the way may lead elsewhere by now.
                await watch.follow(files)
                watched.set()
                if await watch.wait(_LOOK_WHETHER_OVER_S):
                    retry()
        watched.clear()
