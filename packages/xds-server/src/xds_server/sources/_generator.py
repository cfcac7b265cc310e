"""The interface of a generator, which makes the resources of one type."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from xds_server.protocol._node import Node
from xds_server.protocol._watch import Watch
from xds_server.pushing._push_request import PushRequest
from xds_server.sources._generated import Generated

C_co = TypeVar("C_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)


class Client(msgspec.Struct, Generic[C_co], frozen=True, kw_only=True):
    """One stream of one client, as generators and filters see it.

    `id` is unique among the streams of this process; `context` is what `admit` returned for it,
    and so is `drain_time_s` (None: as the server's configuration says).
    """

    id: str
    node: Node
    identities: tuple[str, ...]
    context: C_co
    drain_time_s: float | None = None
    delta: bool = False
    """Whether it speaks the delta dialect, in which a server says which names do not exist."""


class Generator(Protocol[C_contra]):
    """Makes the resources of one type URL. Synchronous, no I/O: it works on state at hand."""

    def generate(
        self, client: Client[C_contra], watch: Watch, push: PushRequest | None, /
    ) -> Generated | None:
        """Return the resources for one client; None: nothing to send.

        `push` None: the client asked, and `watch.names` are the names to answer (a name that does
        not exist is left out). Else something changed, and `watch` is all the client watches.
        """
        ...


@runtime_checkable
class ClientObserver(Protocol[C_contra]):
    """A generator that is called for clients that come and go.

    Each call is followed by a push, not gathered and not built, to the clients that watch its
    type. Its request has one `ConfigKey`: the kind "Client", and the client's id.
    """

    def on_connect(self, client: Client[C_contra], /) -> None:
        """A client was admitted."""
        ...

    def on_disconnect(self, client: Client[C_contra], /) -> None:
        """The stream of a client is over."""
        ...
