"""Problems by the thing that has them, so that an edit has only those looked at that it touched.

Only things that have problems are kept. Mappings are not changed but copied, at C speed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from mesh_configfile import Problem

_K = TypeVar("_K")
_V = TypeVar("_V")
Key: TypeAlias = tuple[str, ...]
"""The key of a thing that is looked at by itself."""
Problems: TypeAlias = Mapping[Key, frozenset[Problem]]


def find_again(
    before: Problems, keys: Iterable[Key], find: Callable[[Key], Iterable[Problem]]
) -> Problems:
    """Return the problems after some things were looked at again: the same mapping, if it is equal.

    A thing that is no longer there has none.
    """
    none = frozenset[Problem]()
    changed = {
        key: found for key in keys if (found := frozenset(find(key))) != before.get(key, none)
    }
    if not changed:
        return before
    return {key: found for key, found in {**before, **changed}.items() if found}


def edited(before: Mapping[_K, _V], gone: Iterable[_K], come: Mapping[_K, _V]) -> Mapping[_K, _V]:
    """Return a mapping without some keys, and with others."""
    if not before:
        return come
    found = dict(before)
    for key in gone:
        found.pop(key, None)
    found.update(come)
    return found


def regrouped(
    before: Mapping[_K, tuple[_V, ...]],
    gone: Iterable[tuple[_K, _V]],
    come: Iterable[tuple[_K, _V]],
) -> Mapping[_K, tuple[_V, ...]]:
    """Return groups of different values without some of them, and with others.

    One that goes and comes stays where it is: a group may be as large as the mesh.
    """
    going, coming = set(gone), dict.fromkeys(come)
    left: dict[_K, set[_V]] = {}
    for key, value in going - coming.keys():
        left.setdefault(key, set()).add(value)
    joined: dict[_K, list[_V]] = {}
    for key, value in coming:
        if (key, value) not in going:
            joined.setdefault(key, []).append(value)
    if not left and not joined:
        return before
    found = dict(before)
    for key in left.keys() | joined.keys():
        without = left.get(key, ())
        stay = (each for each in found.pop(key, ()) if each not in without)
        if group := (*stay, *joined.get(key, ())):
            found[key] = group
    return found
