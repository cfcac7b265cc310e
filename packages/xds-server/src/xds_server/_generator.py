"""Where configuration comes from: what the server asks a generator, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from ._held import Held
from ._node import Node
from ._push import PushRequest
from ._resource import Resource

C_co = TypeVar("C_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)

Assemble: TypeAlias = Callable[[Iterable[Resource]], bytes]
"""Writes resources as one of the dialects does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(Generic[C_co]):
    """One stream of one client, as generators and filters see it.

    `id` is unique among the streams of this process; `context` is what `admit` returned for it,
    and so is `drain_time_s` (None: as the server's configuration says).
    """

    id: str
    node: Node
    identities: tuple[str, ...]
    context: C_co
    drain_time_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a client wants of one type: all of it (`wildcard`) and these names."""

    type_url: str
    names: frozenset[str] = frozenset()
    wildcard: bool = False

    # The names that end in "/*", without the star; found on first use.
    _prefixes: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def covers(self, name: str) -> bool:
        """Whether a resource of this name is wanted; `x/*` among the names wants all below x/."""
        return (
            self.wildcard
            or name in self.names
            or (bool(prefixes := self.prefixes()) and name.startswith(prefixes))
        )

    def prefixes(self) -> tuple[str, ...]:
        """What the names that stand for more than themselves stand for all of."""
        prefixes = self._prefixes
        if prefixes is None:
            prefixes = tuple(name[:-1] for name in self.names if name.endswith("/*"))
            object.__setattr__(self, "_prefixes", prefixes)
        return prefixes

    def select(self, resources: Held) -> Held:
        """Those of `resources` that are wanted; the same mapping if all are.

        Takes time in proportion to the names or the resources, whichever are fewer; with
        prefixes, to the resources.
        """
        if self.wildcard:
            return resources
        if self.prefixes() or len(resources) <= len(self.names):
            some = Held((name, r) for name, r in resources.items() if self.covers(name))
        else:
            some = Held((name, resources[name]) for name in self.names if name in resources)
        return resources if len(some) == len(resources) else some


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
    _by_name: Held | None = field(default=None, init=False, repr=False, compare=False)
    _bodies: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What was selected, for as long as a client has it; and the last, which the next may want.
    _selected: WeakValueDictionary[frozenset[str], Held] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _last_selected: Held | None = field(default=None, init=False, repr=False, compare=False)
    # The last that was put together of some of the resources, and of which.
    _part: tuple[Mapping[str, Resource], Assemble, bytes] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def by_name(self) -> Held:
        """The resources by their names; the last of a name counts."""
        if self._by_name is None:
            names = Held((resource.name, resource) for resource in self.resources)
            object.__setattr__(self, "_by_name", names)
            return names
        return self._by_name

    def wanted_by(self, watch: Watch) -> Held:
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


class Generator(Protocol[C_contra]):
    """Makes the resources of one type URL. Synchronous, no I/O: it works on state at hand."""

    def generate(
        self, client: Client[C_contra], watch: Watch, push: PushRequest | None, /
    ) -> Generated | None:
        """The resources for one client; None: nothing to send.

        `push` None: the client asked, and `watch.names` is what it wants an answer for (a name
        that does not exist is left out). Else something changed, and `watch` is all it watches.
        """
        ...


@runtime_checkable
class ClientObserver(Protocol[C_contra]):
    """What a generator adds to be told who comes and goes.

    Each call is followed by a push, not gathered and not built, to the clients that watch its
    type. It names one `ConfigKey` of the kind "Client", and the client's id.
    """

    def connected(self, client: Client[C_contra], /) -> None:
        """A client was admitted."""
        ...

    def disconnected(self, client: Client[C_contra], /) -> None:
        """Its stream is over."""
        ...
