"""One timer for many items that each have the same time."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Calls `expired` with each item that was added and not discarded within `after_s`."""

    __slots__ = ("_after_s", "_due", "_expired", "_timer")

    def __init__(self, after_s: float, expired: Callable[[T], None]) -> None:
        self._after_s = after_s
        self._expired = expired
        self._due: dict[T, float] = {}  # in the order of their time, as it is equally long for all
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: T) -> None:
        """Begin the time of an item; the time of one that was added before goes on."""
        if item in self._due:
            return
        due = self._due[item] = asyncio.get_running_loop().time() + self._after_s
        self._set_timer(due)

    def discard(self, item: T) -> None:
        self._due.pop(item, None)

    def clear(self) -> list[T]:
        """Remove all items and return them."""
        left = list(self._due)
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return left

    def _set_timer(self, due: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._expire_due)

    def _expire_due(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._due:
            item, due = next(iter(self._due.items()))
            if due > now:
                self._set_timer(due)
                return
            del self._due[item]
            self._expired(item)
