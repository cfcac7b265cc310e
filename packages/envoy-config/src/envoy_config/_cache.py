"""Values that are made once and shared by all that ask with an equal key."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_VALUES = 50_000
"""Clients choose the names that they ask for: a bound on what that makes the server remember."""

MOST_NAMES = 2_000_000
"""The same for answers to sets of names, of which a client may ask for any number: so many names in
all of them. A thousand scopes of 2 000 clusters each, at some 50 bytes a name."""


def _one(_key: object) -> int:
    return 1


class Cache(Generic[_K, _V]):
    """Values by key; emptied when it is full, which it is when its keys weigh `most`.

    What makes a value is given with the key: a cache that kept it would refer to its owner, and
    replaced push contexts would wait for the garbage collector.
    """

    def __init__(self, *, most: int = MOST_VALUES, weigh: Callable[[_K], int] = _one) -> None:
        """weigh: returns what a key counts for, such as how many names it is of."""
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._values: dict[_K, _V] = {}

    def get(self, key: _K, make: Callable[[_K], _V]) -> _V:
        """Return the value of a key, made when it is first asked for."""
        if key not in self._values:
            value = make(key)
            self.put(key, value)
            return value
        return self._values[key]

    def peek(self, key: _K) -> _V | None:
        """Return the value of a key, if there is one."""
        return self._values.get(key)

    def pop(self, key: _K) -> _V | None:
        """Return the value of a key, if there is one, and forget it."""
        if key not in self._values:
            return None
        self._weight -= self._weigh(key)
        return self._values.pop(key)

    def put(self, key: _K, value: _V) -> None:
        """Keep the value of a key, in the place of the one that it has; none that is too heavy."""
        if key not in self._values:
            weight = self._weigh(key)
            if weight > self._most:
                return
            if self._weight + weight > self._most:
                self._values.clear()
                self._weight = 0
            self._weight += weight
        self._values[key] = value

    def __contains__(self, key: object) -> bool:
        """Return whether a value was made for a key."""
        return key in self._values

    def __iter__(self) -> Iterator[_K]:
        """Return the keys of the values that were made."""
        return iter(self._values)

    def items(self) -> Iterable[tuple[_K, _V]]:
        """Return the keys, and the values that were made for them."""
        return self._values.items()

    def adopt(self, other: "Cache[_K, _V]", *, where: Callable[[_K], bool]) -> None:
        """Take over the values of another cache whose keys are such."""
        self._take({key: value for key, value in other._values.items() if where(key)})
        self._drop_oldest()

    def adopt_but(self, other: "Cache[_K, _V]", keys: Iterable[_K]) -> None:
        """Take over the values of another cache but those of some keys, however many it has."""
        self._take(other._values)
        for key in keys:
            self.pop(key)
        self._drop_oldest()

    def _take(self, values: Mapping[_K, _V]) -> None:
        if self._weigh is _one:
            self._values |= values
            self._weight = len(self._values)
            return
        self._weight += sum(self._weigh(key) for key in values if key not in self._values)
        self._values |= values

    def _drop_oldest(self) -> None:
        while self._weight > self._most:
            self.pop(next(iter(self._values)))

    def values(self) -> Iterable[_V]:
        """Return the values that were made."""
        return self._values.values()
