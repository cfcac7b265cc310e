"""The resources that a generator makes, and their bytes, which every stream shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakValueDictionary

from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import ResourcesByName
from xds_server.protocol._watch import Watch

Assemble: TypeAlias = Callable[[Iterable[Resource]], bytes]
"""Writes resources as one of the dialects does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A generator's answer.

    For a wildcard watch, and for clusters and listeners always, `resources` is everything the
    client shall have: what it has and is not among them goes away. For the other types
    `resources` may be only what changed, and `removed` names what is gone. A generator that
    knows only the difference for a wildcard watch says `partial=True`; the rest then stays. One
    that knows everything there is of the type says `complete=True`, and may return it to every
    client: who has something else, or asks for something else, is told that it does not exist.
    `version` is the response's version; None takes the server's current one.

    Return one object for many clients where they get the same: its bytes are then built once.
    """

    resources: Sequence[Resource]
    removed: frozenset[str] = frozenset()
    version: str | None = None
    partial: bool = False
    complete: bool = False

    # Made on first use, then shared by every stream this object is sent on.
    _by_name: ResourcesByName | None = field(default=None, init=False, repr=False, compare=False)
    _bodies: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What was selected, for as long as a client has it; and the last, which the next may want.
    _selected: WeakValueDictionary[frozenset[str], ResourcesByName] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _last_selected: ResourcesByName | None = field(
        default=None, init=False, repr=False, compare=False
    )
    # The last that was put together of some of the resources, and of which.
    _part: tuple[Mapping[str, Resource], Assemble, bytes] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def by_name(self) -> ResourcesByName:
        """The resources by their names; the last of a name counts."""
        if self._by_name is None:
            names = ResourcesByName((resource.name, resource) for resource in self.resources)
            object.__setattr__(self, "_by_name", names)
            return names
        return self._by_name

    def wanted_by(self, watch: Watch) -> ResourcesByName:
        """The resources a watch wants, by name: one mapping for all who want the same."""
        everything = self.by_name()
        if watch.wildcard or not everything:
            return everything
        selected = self._selected
        if selected is None:
            selected = WeakValueDictionary()
            object.__setattr__(self, "_selected", selected)
        some = selected.get(watch.names)
        if some is None:
            some = selected[watch.names] = watch.select(everything)
            object.__setattr__(self, "_last_selected", some)
        return some

    def body_of(self, some: Mapping[str, Resource], assemble: Assemble) -> bytes:
        """Some of the resources as `assemble` writes them, put together once for all clients."""
        if some is self._by_name:
            return self._whole_body(assemble)
        known = self._part
        if known is not None and known[0] is some and known[1] is assemble:
            return known[2]
        part = assemble(some.values())
        object.__setattr__(self, "_part", (some, assemble, part))
        return part

    def _whole_body(self, assemble: Assemble) -> bytes:
        body = self._bodies.get(assemble.__name__)
        if body is None:
            body = self._bodies[assemble.__name__] = assemble(self.by_name().values())
        return body
