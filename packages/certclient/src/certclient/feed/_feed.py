"""Publishes one value that changes to any number of subscribers.

A slow subscriber gets the newest value, not every one, and never misses the last.
"""

import asyncio
from typing import Generic, TypeVar

from certclient._errors import FeedClosed

T = TypeVar("T")


class Feed(Generic[T]):
    """Holds the newest value and its number, and lets subscribers wait for a newer one.

    For one event loop only.
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._version = 0
        self._closed = False
        self._changed = asyncio.Event()

    @property
    def value(self) -> T:
        """The newest value."""
        return self._value

    @property
    def version(self) -> int:
        """The number of values published so far."""
        return self._version

    def publish(self, value: T) -> None:
        """Make `value` the newest and wake every subscriber."""
        self._value = value
        self._version += 1
        self._wake()

    def close(self) -> None:
        """Tell every subscriber that no newer value will come."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        # Subscribers that wait from now on get a new event, so that none has to clear a shared one.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_newer(self, version: int) -> int:
        """Wait until there is a value newer than `version`; return its number.

        Raises FeedClosed if there is none and the feed is closed.
        """
        while self._version <= version:
            if self._closed:
                raise FeedClosed("no further certificate will come: rotation has stopped")
            await self._changed.wait()
        return self._version
