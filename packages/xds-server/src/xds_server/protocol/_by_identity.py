"""Values kept for objects, by their identity, for as long as there are the objects.

A `WeakKeyDictionary` compares what is equal element by element, even an object with itself: 2 ms
for a set of ten thousand names, for each of a thousand clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar
from weakref import ref

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Kept(NamedTuple, Generic[_K, _V]):
    key: ref[_K]
    value: _V


class ByIdentity(Generic[_K, _V]):
    """A value for each of some objects that can be referred to weakly.

    A generator can keep by `Watch.names` what it works out of them: equal clients share the set.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept[_K, _V]] = {}

    def __len__(self) -> int:
        """Return the number of objects that have a value."""
        return len(self._kept)

    def get(self, key: _K) -> _V | None:
        """Return the value of an object, if it has one."""
        kept = self._kept.get(id(key))
        return kept.value if kept is not None and kept.key() is key else None

    def keep(self, key: _K, value: _V) -> None:
        """Give an object a value."""
        self._kept[id(key)] = _Kept(ref(key, _forgetter(self._kept, id(key))), value)


def _forgetter(kept: dict[int, _Kept[_K, _V]], number: int) -> Callable[[ref[_K]], None]:
    def forget(gone: ref[_K]) -> None:
        known = kept.get(number)
        if known is not None and known.key is gone:
            del kept[number]

    return forget
