"""Values that are made once and shared by all that ask with an equal key."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_VALUES = 50_000
"""Clients choose the names that they ask for: a bound on what that makes the server remember."""


class Cache(Generic[_K, _V]):
    """Values by key; emptied when it is full.

    What makes a value is given with the key: a cache that kept it would refer to its owner, and
    replaced push contexts would wait for the garbage collector.
    """

    def __init__(self, *, most: int = MOST_VALUES) -> None:
        self._most = most
        self._values: dict[_K, _V] = {}

    def get(self, key: _K, make: Callable[[_K], _V]) -> _V:
        """Return the value of a key, made when it is first asked for."""
        if key not in self._values:
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[key] = make(key)
        return self._values[key]

    def peek(self, key: _K) -> _V | None:
        """Return the value of a key, if there is one."""
        return self._values.get(key)

    def pop(self, key: _K) -> _V | None:
        """Return the value of a key, if there is one, and forget it."""
        return self._values.pop(key, None)

    def put(self, key: _K, value: _V) -> None:
        """Keep the value of a key."""
        self.get(key, lambda _: value)

    def replace(self, key: _K, value: _V) -> None:
        """Keep another value of a key."""
        self._values[key] = value

    def __iter__(self) -> Iterator[_K]:
        """Return the keys of the values that were made."""
        return iter(self._values)

    def items(self) -> Iterable[tuple[_K, _V]]:
        """Return the keys, and the values that were made for them."""
        return self._values.items()

    def adopt(self, other: "Cache[_K, _V]", *, where: Callable[[_K], bool]) -> None:
        """Take over the values of another cache whose keys are such."""
        self._values |= {key: value for key, value in other._values.items() if where(key)}
        self._drop_oldest()

    def adopt_but(self, other: "Cache[_K, _V]", keys: Iterable[_K]) -> None:
        """Take over the values of another cache but those of some keys, however many it has."""
        self._values |= other._values
        for key in keys:
            self._values.pop(key, None)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        for key in list(islice(self._values, max(0, len(self._values) - self._most))):
            del self._values[key]

    def values(self) -> Iterable[_V]:
        """Return the values that were made."""
        return self._values.values()
