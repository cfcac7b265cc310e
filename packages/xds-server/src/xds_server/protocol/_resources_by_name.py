"""Resources by name: what a client has, in mappings that the streams of equal clients share.

Many clients that have the same are to be brought to the same. What one of them lacks, and what it
has afterwards, is worked out for the first of them and kept on the mapping that all of them are
moved away from. The mapping, and the results with it, is freed when the last client has been moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from xds_server.protocol._resource import Resource

NO_NAMES: frozenset[str] = frozenset()
"""The one empty set of names: each is 216 bytes, and an idle stream would have half a dozen."""

_shared: WeakKeyDictionary[frozenset[str], ref[frozenset[str]]] = WeakKeyDictionary()


def shared_names(names: frozenset[str]) -> frozenset[str]:
    """Return the set equal to `names` that all streams share.

    A thousand clients of one shape then have one set, and comparing theirs takes no time.
    """
    if not names:
        return NO_NAMES
    known = _shared.get(names)
    same = known() if known is not None else None
    if same is None:
        _shared[names] = ref(names)
        return names
    return same


def absent(names: Iterable[str], resources: Mapping[str, Resource]) -> frozenset[str]:
    """Return those of some names that are not among resources; it costs what the names are.

    A set's own `difference` looks at every resource.
    """
    return frozenset(name for name in names if name not in resources) or NO_NAMES


class _NamesStep(NamedTuple):
    """The last result of `names_after` for some names, with its arguments."""

    come: frozenset[str]
    gone: frozenset[str]
    after: ref[frozenset[str]]


_steps: WeakKeyDictionary[frozenset[str], _NamesStep] = WeakKeyDictionary()


def names_after(
    names: frozenset[str], come: frozenset[str], gone: frozenset[str]
) -> frozenset[str]:
    """Return `names` without `gone` and with `come`, shared as by `shared_names`.

    Of a thousand clients that ask alike, it is worked out for the first.
    """
    known = _steps.get(names)
    if known is not None and known.come == come and known.gone == gone:
        after = known.after()
        if after is not None:
            return after
    after = shared_names((names - gone) | come)
    if names:
        _steps[names] = _NamesStep(come, gone, ref(after))
    return after


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
    """Resources by name; never changed once it is made, as streams share it.

    `endpoints` are the names of the endpoints that these refer to, if these are clusters and were
    looked at; `_references` reads them. `sotw_body` are the bytes of these, if a stream was sent
    them without a generator, as after a removal.
    """

    __slots__ = (
        "__weakref__",
        "_content",
        "_difference",
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
        new = changed(state, self)
        gone = frozenset(self.keys() - state.keys()) if complete and self else NO_NAMES
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
        after = self._known_or(after, new.keys() | removed)
        # A copy and a weak reference, as `new` and `after` may lead on: a client that is still here
        # shall not keep alive all the mappings that came after.
        self._successor = _Successor(dict(new), removed, ref(after))
        return after

    def edited(self, changed: Iterable[Resource], removed: Iterable[str]) -> ResourcesByName:
        """Return these with some resources changed or new, and without `removed`.

        `difference` then knows the result for clients that have these.
        """
        after, new = ResourcesByName(self), dict[str, Resource]()
        for each in changed:
            if _differs(self.get(each.name), each):
                after[each.name] = new[each.name] = each
        gone = frozenset(name for name in removed if after.pop(name, None) is not None)
        after = self._known_or(after, new.keys() | gone)
        if len(new) < len(after):
            self._difference = _Difference(ref(after), True, new, gone or NO_NAMES)
        return after

    def findable(self) -> ResourcesByName:
        """Return these, which streams then have that come to the same by changes."""
        self._content_hash()
        return self

    def _known_or(self, after: ResourcesByName, changed: Iterable[str]) -> ResourcesByName:
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
        return after

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


def changed(
    state: Mapping[str, Resource], client_has: Mapping[str, Resource]
) -> Mapping[str, Resource]:
    """Return the resources of `state` that the client lacks; the same mapping if it lacks all."""
    if state is client_has:
        return NO_RESOURCES
    if not client_has:
        return state
    new = {
        name: resource
        for name, resource in state.items()
        if (old := client_has.get(name)) is not resource and _differs(old, resource)
    }
    return state if len(new) == len(state) else new


def _differs(old: Resource | None, new: Resource) -> bool:
    return old is None or old.version != new.version or old.ttl_s != new.ttl_s
