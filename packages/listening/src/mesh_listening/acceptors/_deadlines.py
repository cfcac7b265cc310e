"""Many things that have equally long each, and one timer for all of them."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Calls `expired` with what was added and not discarded within `after_s`."""

    __slots__ = ("_after_s", "_due", "_expired", "_timer")

    def __init__(self, after_s: float, expired: Callable[[T], None]) -> None:
        self._after_s = after_s
        self._expired = expired
        self._due: dict[T, float] = {}  # in the order of their time, as all have equally long
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: T) -> None:
        """Its time begins; if it has begun already, it goes on."""
        if item in self._due:
            return
        due = self._due[item] = asyncio.get_running_loop().time() + self._after_s
        self._look_at(due)

    def discard(self, item: T) -> None:
        self._due.pop(item, None)

    def clear(self) -> list[T]:
        """Forget all; returns what was still waited for."""
        left = list(self._due)
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return left

    def _look_at(self, due: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._due:
            item, due = next(iter(self._due.items()))
            if due > now:
                self._look_at(due)
                return
            del self._due[item]
            self._expired(item)
