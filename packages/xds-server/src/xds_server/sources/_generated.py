"""The resources that a generator makes, and their bytes, which all streams share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary, ref

from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import ResourcesByName
from xds_server.protocol._watch import Watch

Encode: TypeAlias = Callable[[Iterable[Resource]], bytes]
"""Writes resources as one of the dialects does."""


class _Part(NamedTuple):
    """The bytes of some of the resources, and which resources and which dialect they are of."""

    resources: Mapping[str, Resource]
    encode: Encode
    body: bytes


class _Shared:
    """Values computed from one `Generated` on first use, for every stream that it is sent on."""

    __slots__ = ("bodies", "by_name", "last_part", "last_selected", "selected")

    def __init__(self) -> None:
        self.by_name: ResourcesByName | None = None
        self.bodies: dict[str, bytes] = {}
        # The selections by the names of a watch. A selection lives as long as a client has it;
        # the last one is kept besides, as the next client may want it.
        self.selected: WeakValueDictionary[frozenset[str], ResourcesByName] | None = None
        self.last_selected: ResourcesByName | None = None
        self.last_part: _Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A generator's answer.

    For a wildcard watch, and for clusters and listeners always, `resources` is everything the
    client shall have: it loses all others that it has. For the other types `resources` may be
    only those that changed, and `removed` names those that are gone. A generator that knows only
    the difference for a wildcard watch says `partial=True`; the other resources then stay. One
    that knows everything there is of the type says `complete=True`, and may return it to every
    client: a client that has something else, or asks for something else, learns that it does not
    exist. `version` is the response's version; None takes the server's current one.

    Return one object for many clients where they get the same: its bytes are then built once.
    """

    resources: Sequence[Resource]
    removed: frozenset[str] = frozenset()
    version: str | None = None
    partial: bool = False
    complete: bool = False

    _shared: _Shared = field(default_factory=_Shared, init=False, repr=False, compare=False)

    def by_name(self) -> ResourcesByName:
        """Return the resources by their names; the last of a name counts."""
        shared = self._shared
        if shared.by_name is None:
            shared.by_name = ResourcesByName((each.name, each) for each in self.resources)
        return shared.by_name

    def wanted_by(self, watch: Watch) -> ResourcesByName:
        """Return the resources a watch wants: one mapping for all clients that want the same."""
        everything = self.by_name()
        if watch.wildcard or not everything:
            return everything
        shared = self._shared
        if shared.selected is None:
            shared.selected = WeakValueDictionary()
        some = shared.selected.get(watch.names)
        if some is None:
            some = watch.select(everything)
            shared.selected[watch.names] = shared.last_selected = some
        return some

    def body_of(self, some: Mapping[str, Resource], encode: Encode) -> bytes:
        """Return some of the resources as `encode` writes them, written once for all clients."""
        shared = self._shared
        if some is shared.by_name:
            return self._whole_body(encode)
        part = shared.last_part
        if part is None or part.resources is not some or part.encode is not encode:
            part = shared.last_part = _Part(some, encode, encode(some.values()))
        return part.body

    def edit_base(self) -> EditBase:
        """Return the base from which later answers are built by their difference from this one."""
        return EditBase(ref(self.by_name().findable()))

    def _whole_body(self, encode: Encode) -> bytes:
        bodies = self._shared.bodies
        body = bodies.get(encode.__name__)
        if body is None:
            body = bodies[encode.__name__] = encode(self.by_name().values())
        return body


class EditBase:
    """An answer that clients may have, and from which a later one is built by an edit.

    Building the later one costs what the edit costs. What clients lack of it is then known, too,
    and is not looked for among all. The answer is held no longer than it is the last that a client
    was given.
    """

    __slots__ = ("_by_name",)

    def __init__(self, by_name: ref[ResourcesByName]) -> None:
        self._by_name = by_name

    @property
    def is_held(self) -> bool:
        """Whether the answer is still there."""
        return self._by_name() is not None

    def apply(self, changed: Iterable[Resource], removed: Iterable[str] = ()) -> Generated | None:
        """Return the answer after an edit; None if the earlier one is gone.

        changed: resources that are new or may be others. removed: names that may have been there.
        """
        before = self._by_name()
        if before is None:
            return None
        by_name = before.with_edit(changed, removed)
        generated = Generated(resources=tuple(by_name.values()))
        generated._shared.by_name = by_name
        return generated
