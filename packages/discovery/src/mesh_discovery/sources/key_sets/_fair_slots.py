"""Slots for work that others name: no namespace holds so many that another one has to wait.

A namespace may hold a few. All together they hold some more, but one that holds none is given a
slot at once: so the servers that one namespace names, however silent, delay none of another's.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class _Waiter:
    """One who waits for a slot, in the queue of each of its namespaces."""

    def __init__(self, namespaces: Collection[str], *, is_first: bool, number: int) -> None:
        self.namespaces = namespaces
        self.is_first = is_first
        self.number = number
        self.granted: asyncio.Future[str] = asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class _Queue:
    """The waiters of a namespace: for the first time, and again."""

    first: deque[_Waiter] = field(default_factory=deque)
    again: deque[_Waiter] = field(default_factory=deque)

    def add(self, waiter: _Waiter) -> None:
        (self.first if waiter.is_first else self.again).append(waiter)

    def next_one(self) -> _Waiter | None:
        for queue in (self.first, self.again):
            # One who was given a slot of another namespace, or who has gone.
            while queue and queue[0].granted.done():
                queue.popleft()
            if queue:
                return queue[0]
        return None


class FairSlots:
    """At most `of_a_namespace` at a time for each namespace, and `in_all`.

    A namespace without any may hold one above `in_all`. Who asks for several namespaces takes a
    slot of the one that holds the fewest.
    """

    def __init__(self, *, of_a_namespace: int, in_all: int) -> None:
        self._of_a_namespace = of_a_namespace
        self._in_all = in_all
        self._held: Counter[str] = Counter()
        self._queues: dict[str, _Queue] = {}
        self._number = 0

    @asynccontextmanager
    async def taken(self, namespaces: Collection[str], *, is_first: bool) -> AsyncIterator[str]:
        """Hold a slot during the block; yields the namespace that it is of.

        is_first: comes before those of the same namespace that come again.
        """
        self._number += 1
        waiter = _Waiter(namespaces, is_first=is_first, number=self._number)
        for each in namespaces:
            self._queues.setdefault(each, _Queue()).add(waiter)
        self._grant()
        try:
            namespace = await waiter.granted
        except asyncio.CancelledError:
            if not waiter.granted.cancelled():
                self._release(waiter.granted.result())
            raise
        try:
            yield namespace
        finally:
            self._release(namespace)

    def _release(self, namespace: str) -> None:
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._grant()

    def _grant(self) -> None:
        while (best := min(self._candidates(), key=_rank, default=None)) is not None:
            _, namespace, waiter = best
            self._held[namespace] += 1
            waiter.granted.set_result(namespace)
        for namespace in [each for each, queue in self._queues.items() if not queue.next_one()]:
            del self._queues[namespace]

    def _candidates(self) -> Iterator[tuple[int, str, _Waiter]]:
        """Yield for each namespace that may have a slot what it holds, and who would be next."""
        is_full = self._held.total() >= self._in_all
        for namespace, queue in self._queues.items():
            held = self._held[namespace]
            if held >= self._of_a_namespace or (is_full and held):
                continue
            if (waiter := queue.next_one()) is not None:
                yield held, namespace, waiter


def _rank(candidate: tuple[int, str, _Waiter]) -> tuple[int, bool, int]:
    held, _, waiter = candidate
    return held, not waiter.is_first, waiter.number
