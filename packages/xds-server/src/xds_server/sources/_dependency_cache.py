"""What was generated, kept until something it was made from changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from xds_server.pushing._push_request import ConfigKey

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_REMEMBERED_EVICTIONS = 100_000


@dataclass(frozen=True, slots=True)
class Ticket:
    """Taken before generating, shown when adding: what was evicted since is not added."""

    number: int


class DependencyCache(Generic[K, V]):
    """Values by key, each with the configuration it depends on; the least used go first.

    Take a `ticket` before reading the state a value is made from. `add` then drops the value if
    any of its dependencies was evicted in between, so that what is stale is never kept, however
    long making it took and wherever it was made.
    """

    def __init__(self, *, maximum: int = 60_000) -> None:
        self._maximum = maximum
        self._values: OrderedDict[K, tuple[V, frozenset[ConfigKey]]] = OrderedDict()
        self._dependents: dict[ConfigKey, set[K]] = {}
        self._now = 0
        self._evicted_at: OrderedDict[ConfigKey, int] = OrderedDict()
        self._oldest_ticket = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._values)

    def ticket(self) -> Ticket:
        return Ticket(self._now)

    def get(self, key: K) -> V | None:
        entry = self._values.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._values.move_to_end(key)
        return entry[0]

    def add(self, key: K, value: V, *, depends_on: Iterable[ConfigKey], ticket: Ticket) -> bool:
        """Keep a value; False if it is out of date already."""
        dependencies = frozenset(depends_on)
        if ticket.number < self._oldest_ticket or any(
            self._evicted_at.get(dependency, -1) > ticket.number for dependency in dependencies
        ):
            return False
        self._drop(key)
        self._values[key] = (value, dependencies)
        for dependency in dependencies:
            self._dependents.setdefault(dependency, set()).add(key)
        while len(self._values) > self._maximum:
            self._drop(next(iter(self._values)))
        return True

    def evict(self, changed: Iterable[ConfigKey]) -> None:
        """Forget everything that depends on any of these."""
        self._now += 1
        for dependency in changed:
            self._evicted_at[dependency] = self._now
            self._evicted_at.move_to_end(dependency)
            for key in tuple(self._dependents.get(dependency, ())):
                self._drop(key)
        while len(self._evicted_at) > _REMEMBERED_EVICTIONS:
            # A ticket older than what is forgotten here cannot be judged any more.
            _, self._oldest_ticket = self._evicted_at.popitem(last=False)

    def clear(self) -> None:
        """Forget everything, and take nothing that was begun before."""
        self._now += 1
        self._oldest_ticket = self._now
        self._values.clear()
        self._dependents.clear()
        self._evicted_at.clear()

    def _drop(self, key: K) -> None:
        entry = self._values.pop(key, None)
        if entry is None:
            return
        for dependency in entry[1]:
            dependents = self._dependents[dependency]
            dependents.discard(key)
            if not dependents:
                del self._dependents[dependency]
