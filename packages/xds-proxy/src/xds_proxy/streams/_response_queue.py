"""The responses that wait to be written to one Envoy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from xds_proxy.quarantine._to_envoy import PartsOf, ToEnvoy
from xds_proxy.streams._ends import End

_RESPONSES_AHEAD = 1


class ResponseQueue:
    """A queue with room for one, so that the control plane waits with what Envoy does not read."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[ToEnvoy | PartsOf | End]
        self._queue = asyncio.Queue(maxsize=_RESPONSES_AHEAD)
        self._ahead: dict[int, ToEnvoy] = {}
        """The responses in the queue, and those that wait for room in it."""

    def __iter__(self) -> Iterator[ToEnvoy]:
        return iter(self._ahead.values())

    async def put(self, response: ToEnvoy) -> None:
        """Put a response; returns when there was room for it."""
        self._ahead[id(response)] = response
        try:
            await self._queue.put(response)
        except asyncio.CancelledError:
            self._ahead.pop(id(response), None)
            raise

    async def put_parts(self, parts: PartsOf) -> None:
        """Keep a place for parts, which are built when it is their turn."""
        await self._queue.put(parts)

    async def put_end(self, end: End) -> None:
        """Put the end of the stream, behind the responses that came before."""
        await self._queue.put(end)

    async def get(self) -> ToEnvoy | PartsOf | End:
        """Wait for what is next."""
        item = await self._queue.get()
        self._ahead.pop(id(item), None)
        return item
