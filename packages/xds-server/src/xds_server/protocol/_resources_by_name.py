"""Resources by name: what a client has, in mappings that the streams of equal clients share.

Many clients that have the same are to be brought to the same. What one of them lacks, and what it
has afterwards, is worked out for the first of them and kept on the mapping that all of them are
moved away from. The mapping, and the results with it, is freed when the last client has been moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress, filterfalse
from operator import is_not
from typing import NamedTuple
from weakref import WeakValueDictionary, ref

from xds_server.protocol._names import NO_NAMES, absent_names
from xds_server.protocol._resource import Resource

_MOST_STEPS = 8
_MOST_CHANGED = 256
"""A mapping knows of so many earlier ones that it came of, and of so many names changed since."""

_OF_NOTHING: Mapping[object, frozenset[str]] = {}
"""The names changed since, by the marks of earlier mappings."""


class _Difference(NamedTuple):
    """The last result of `difference`, with the arguments that it is the result for."""

    state: ref[ResourcesByName]
    complete: bool
    new: Mapping[str, Resource]
    gone: frozenset[str]


class _Successor(NamedTuple):
    """The last result of `with_changes`, with its arguments."""

    new: dict[str, Resource]
    removed: frozenset[str]
    after: ref[ResourcesByName]


class _Part(NamedTuple):
    """The last result of `only`, with its argument."""

    names: frozenset[str]
    part: ResourcesByName


class ResourcesByName(dict[str, Resource]):
    """Resources by name; never changed once it is built, as streams share it.

    `endpoints` are the names of the endpoints that these refer to, if these are clusters and were
    looked at; `_references` reads them. `sotw_body` are the bytes of these, if a stream was sent
    them without a generator, as after a removal.
    """

    __slots__ = (
        "__weakref__",
        "_came_of",
        "_content",
        "_difference",
        "_mark",
        "_part",
        "_successor",
        "endpoints",
        "sotw_body",
    )

    def __init__(self, resources: Iterable[tuple[str, Resource]] | Mapping[str, Resource] = ()):
        super().__init__(resources)
        self._difference: _Difference | None = None
        self._successor: _Successor | None = None
        self._part: _Part | None = None
        self._content: int | None = None
        self._mark = object()
        self._came_of = _OF_NOTHING
        self.endpoints: frozenset[str] | None = None
        self.sotw_body: bytes | None = None

    def difference(
        self, state: Mapping[str, Resource], *, complete: bool
    ) -> tuple[Mapping[str, Resource], frozenset[str]]:
        """Return the resources of `state` that are new or changed, and the names it lacks.

        The first is `state` itself if that is all of it; the second is empty unless `state` is
        `complete`.
        """
        known = self._difference
        if known is not None and known.state() is state and known.complete is complete:
            return known.new, known.gone
        names = self._where_other(state) if isinstance(state, ResourcesByName) else None
        if names is None:
            new = changed_resources(state, self)
            gone = frozenset(filterfalse(state.__contains__, self)) if complete else NO_NAMES
        else:
            here = sorted(name for name in names if name in state)
            some = {each: state[each] for each in here if _differs(self.get(each), state[each])}
            new = state if len(some) == len(state) else some
            left = absent_names((name for name in names if name in self), state)
            gone = left if complete else NO_NAMES
        if isinstance(state, ResourcesByName) and new is not state:
            self._difference = _Difference(ref(state), complete, new, gone)
        return new, gone

    def with_changes(self, new: Mapping[str, Resource], removed: frozenset[str]) -> ResourcesByName:
        """Return these with `new` and without `removed`.

        Streams that came to the same result on different ways get one mapping, too: as when one had
        two changes in one push, or had gone on before the other began.
        """
        known = self._successor
        if known is not None and known.new == new and known.removed == removed:
            successor = known.after()
            if successor is not None:
                return successor
        after = ResourcesByName(self)
        after.update(new)
        for name in removed:
            after.pop(name, None)
        after = self._known_or(after, removed.union(new))
        # A copy and a weak reference, as `new` and `after` may lead on: a client that is still here
        # shall not keep alive all the mappings that came after.
        self._successor = _Successor(dict(new), removed, ref(after))
        return after

    def with_edit(self, changed: Iterable[Resource], removed: Iterable[str]) -> ResourcesByName:
        """Return these with some resources changed or new, and without `removed`.

        `difference` then looks at no others for clients that have these, or came of these.
        """
        new = {each.name: each for each in changed if _differs(self.get(each.name), each)}
        after = ResourcesByName(self)
        after.update(new)
        gone = [name for name in removed if after.pop(name, None) is not None]
        return self._known_or(after, frozenset(gone).union(new))

    def findable(self) -> ResourcesByName:
        """Return these, which streams then have that come to the same by changes."""
        self._content_hash()
        return self

    def _known_or(self, after: ResourcesByName, changed: frozenset[str]) -> ResourcesByName:
        """Return a mapping equal to `after` that a stream has, or else `after`.

        `changed` are the names in which it may differ from these.
        """
        content = self._content_hash()
        for name in changed:
            content += _hash_of(after.get(name)) - _hash_of(self.get(name))
        known = _known.get(content)
        if known is not None and known == after:
            return known
        after._content = content
        _known[content] = after
        if len(changed) <= _MOST_CHANGED:
            came_of = {self._mark: changed}
            for mark, earlier in self._came_of.items():
                names = earlier | changed
                if len(came_of) < _MOST_STEPS and len(names) <= _MOST_CHANGED:
                    came_of[mark] = names
            after._came_of = came_of
        return after

    def _where_other(self, state: ResourcesByName) -> frozenset[str] | None:
        """Return the names of all resources that may be others here and there, if it is known.

        It is if both came of the same by edits, such as what the generator has and what a client
        has from which the last removal is still held back.
        """
        here = {self._mark: NO_NAMES, **self._came_of}
        there = {state._mark: NO_NAMES, **state._came_of}
        mark = next((each for each in here if each in there), None)
        return None if mark is None else here[mark] | there[mark]

    def _content_hash(self) -> int:
        if self._content is None:
            self._content = sum(map(_hash_of, self.values()))
            _known.setdefault(self._content, self)
        return self._content

    def only(self, names: frozenset[str]) -> ResourcesByName:
        """Return those of these names; the same mapping if that is all of them."""
        known = self._part
        if known is not None and known.names == names:
            return known.part
        part = ResourcesByName((name, each) for name, each in self.items() if name in names)
        if len(part) == len(self):
            return self
        self._part = _Part(names, part)
        return part

    def without(self, names: frozenset[str]) -> ResourcesByName:
        """Return these without `names`."""
        return self.with_changes(NO_RESOURCES, names)


NO_RESOURCES = ResourcesByName()

_known: WeakValueDictionary[int, ResourcesByName] = WeakValueDictionary()
"""Mappings that streams have and that were edited, by the sum of the hashes of their resources."""


def _hash_of(resource: Resource | None) -> int:
    return 0 if resource is None else hash((resource.name, resource.version))


def changed_resources(
    state: Mapping[str, Resource], client_has: Mapping[str, Resource]
) -> Mapping[str, Resource]:
    """Return the resources of `state` that the client lacks; the same mapping if it lacks all."""
    if state is client_has:
        return NO_RESOURCES
    if not client_has:
        return state
    # Most are the same objects, which is found out without a line of Python for each.
    others = compress(state.items(), map(is_not, map(client_has.get, state), state.values()))
    new = {name: each for name, each in others if _differs(client_has.get(name), each)}
    return state if len(new) == len(state) else new


def _differs(old: Resource | None, new: Resource) -> bool:
    return old is None or old.version != new.version or old.ttl_s != new.ttl_s
