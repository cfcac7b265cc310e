"""Where configuration comes from: what the server asks a generator, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from ._node import Node
from ._push import PushRequest
from ._resource import Resource

C_co = TypeVar("C_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(Generic[C_co]):
    """One stream of one client, as generators and filters see it.

    `id` is unique among the streams of this process; `context` is what `admit` returned for it.
    """

    id: str
    node: Node
    identities: tuple[str, ...]
    context: C_co


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a client wants of one type: all of it (`wildcard`) and these names."""

    type_url: str
    names: frozenset[str] = frozenset()
    wildcard: bool = False

    def covers(self, name: str) -> bool:
        """Whether a resource of this name is wanted; `x/*` among the names wants all below x/."""
        return self.wildcard or name in self.names or self._covered_by_prefix(name)

    def _covered_by_prefix(self, name: str) -> bool:
        return any(prefix.endswith("/*") and name.startswith(prefix[:-1]) for prefix in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A generator's answer.

    For a wildcard watch, and for clusters and listeners always, `resources` is everything the
    client shall have: what it has and is not among them goes away. For the other types
    `resources` may be only what changed, and `removed` names what is gone. A generator that
    knows only the difference for a wildcard watch says `partial=True`; the rest then stays.
    `version` is the response's version; None takes the server's current one.

    Return one object for many clients where they get the same: its bytes are then built once.
    """

    resources: Sequence[Resource]
    removed: frozenset[str] = frozenset()
    version: str | None = None
    partial: bool = False

    # Made on first use, then shared by every stream this object is sent on.
    _by_name: Mapping[str, Resource] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _bodies: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def by_name(self) -> Mapping[str, Resource]:
        """The resources by their names; the last of a name counts."""
        if self._by_name is None:
            names = {resource.name: resource for resource in self.resources}
            object.__setattr__(self, "_by_name", names)
            return names
        return self._by_name

    def shared_body(self, assemble: Callable[[Iterable[Resource]], bytes]) -> bytes:
        """All the resources as `assemble` writes them, put together once."""
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
class FollowsClients(Protocol[C_contra]):
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
