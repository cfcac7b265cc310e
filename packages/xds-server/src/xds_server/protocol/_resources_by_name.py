"""What clients have, by name: mappings that streams of one shape share, and what follows from one.

Many clients that have the same are to be brought to the same. What they lack and what they have
afterwards is found out for the first of them, and kept on the mapping they all leave behind, which
is gone as soon as the last of them has left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

from xds_server.protocol._resource import Resource

NO_NAMES: frozenset[str] = frozenset()
"""One for all: each empty set is 216 bytes, and an idle stream would have half a dozen."""

_known: WeakKeyDictionary[frozenset[str], ref[frozenset[str]]] = WeakKeyDictionary()


def shared_names(names: frozenset[str]) -> frozenset[str]:
    """The set equal to `names` that everybody else has as well.

    A thousand clients of one shape then have one set, and comparing theirs takes no time.
    """
    if not names:
        return NO_NAMES
    known = _known.get(names)
    same = known() if known is not None else None
    if same is None:
        _known[names] = ref(names)
        return names
    return same


class ResourcesByName(dict[str, Resource]):
    """Resources by name; never changed once it is made, as streams share it."""

    __slots__ = ("__weakref__", "_difference", "_successor")

    def __init__(self, resources: Iterable[tuple[str, Resource]] | Mapping[str, Resource] = ()):
        super().__init__(resources)
        self._difference: tuple[Any, ...] | None = None
        self._successor: tuple[Any, ...] | None = None

    def difference(
        self, state: Mapping[str, Resource], *, complete: bool
    ) -> tuple[Mapping[str, Resource], frozenset[str]]:
        """What of `state` is new or changed; and what is not in it, if it is `complete`.

        The first is `state` itself if that is all of it.
        """
        known = self._difference
        if known is not None and known[0]() is state and known[1] is complete:
            return known[2], known[3]
        new = changed(state, self)
        gone = frozenset(self.keys() - state.keys()) if complete and self else NO_NAMES
        if isinstance(state, ResourcesByName) and new is not state:
            self._difference = (ref(state), complete, new, gone)
        return new, gone

    def with_changes(self, new: Mapping[str, Resource], removed: frozenset[str]) -> ResourcesByName:
        """These with `new` and without `removed`."""
        known = self._successor
        if known is not None and known[0]() is new and known[1] == removed:
            successor: ResourcesByName | None = known[2]()
            if successor is not None:
                return successor
        after = ResourcesByName(self)
        after.update(new)
        for name in removed:
            after.pop(name, None)
        # Weak where it may lead on, so that one who stays here does not hold all that come after.
        of = ref(new) if isinstance(new, ResourcesByName) else partial(_same, new)
        self._successor = (of, removed, ref(after))
        return after

    def without(self, names: frozenset[str]) -> ResourcesByName:
        return self.with_changes(NO_RESOURCES, names)


NO_RESOURCES = ResourcesByName()


def _same(mapping: Mapping[str, Resource]) -> Mapping[str, Resource]:
    return mapping


def changed(
    state: Mapping[str, Resource], client_has: Mapping[str, Resource]
) -> Mapping[str, Resource]:
    """What of `state` the client does not have; the same mapping if that is all of it."""
    if state is client_has:
        return NO_RESOURCES
    if not client_has:
        return state
    new = {
        name: resource
        for name, resource in state.items()
        if (old := client_has.get(name)) is not resource
        and (old is None or old.version != resource.version or old.ttl_s != resource.ttl_s)
    }
    return state if len(new) == len(state) else new
