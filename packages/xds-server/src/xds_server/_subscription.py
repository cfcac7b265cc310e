"""What one client wants of one type, and what it has: the model both dialects share.

Pure state: no gRPC, no clock. `_sotw` and `_delta` say what requests do to it and what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ._generator import Generated, Watch
from ._request import NO_NAMES, ClientError
from ._resource import Resource
from ._status import Nack, TypeStatus

WILDCARD = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Something a stream needs generated, and how to answer with it.

    `asked`: the client asked, so what it named and is not generated does not exist; unset, this
    is a push. `force`: it gets what it asked for even if it has it. `even_if_empty`: it waits
    for an answer, so it gets one with nothing in it too.
    """

    type_url: str
    watch: Watch
    asked: bool = False
    force: bool = False
    even_if_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What a request came to: what to generate for it, and what is worth counting."""

    asks: tuple[Ask, ...] = ()
    refused: ClientError | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response ready to be written."""

    type_url: str
    nonce: str
    data: bytes
    resources: int
    removed: int = 0


@dataclass(slots=True, kw_only=True)
class Subscription:
    """One type of one stream."""

    type_url: str
    names: frozenset[str] = NO_NAMES
    wildcard: bool = False
    legacy_wildcard: bool = False
    """Wildcard by an empty list of names, rather than by "*"."""

    held: Mapping[str, Resource] = field(default_factory=dict)
    """What the client has, as far as it was sent or has said; never changed in place, because
    streams that were sent the same share one mapping."""
    leaving: frozenset[str] = NO_NAMES
    """Names that are gone but may still be referred to; the client hears of it last."""
    leaving_since: float = 0.0

    shortest_ttl_s: float | None = None
    """Of the resources that expire unless they are heard of again; None if none do."""
    refreshed_at: float = 0.0
    """When they were last heard of, at the earliest."""

    nonce_sent: str = ""
    version_sent: str = ""
    sent_at: float | None = None
    nonce_acked: str = ""
    version_acked: str = ""
    acked_at: float | None = None
    nack: Nack | None = None
    nacks: int = 0

    @property
    def watch(self) -> Watch:
        return Watch(type_url=self.type_url, names=self.names, wildcard=self.wildcard)

    @property
    def heartbeat_at(self) -> float | None:
        """When resources that expire are due to be heard of again; None: not before an ACK."""
        if self.shortest_ttl_s is None or not self.nonce_acked or not self.settled:
            return None
        return self.refreshed_at + self.shortest_ttl_s / 2

    @property
    def settled(self) -> bool:
        """Whether the client has answered the last thing it was sent."""
        return self.nonce_sent == self.nonce_acked or (
            self.nack is not None and self.nack.nonce == self.nonce_sent
        )

    def sent(self, *, nonce: str, version: str, now: float) -> None:
        self.nonce_sent, self.version_sent, self.sent_at = nonce, version, now

    def acked(self, *, now: float) -> None:
        self.nonce_acked, self.version_acked, self.acked_at = (
            self.nonce_sent,
            self.version_sent,
            now,
        )
        self.nack = None

    def refused(self, error: ClientError, *, nonce: str, now: float) -> None:
        """Remember a NACK; refusals in a row count as one that goes on."""
        self.nacks += 1
        self.nack = Nack(
            version=self.version_sent if nonce == self.nonce_sent else "",
            nonce=nonce,
            code=error.code,
            message=error.message,
            since=now if self.nack is None else self.nack.since,
            last=now,
            count=1 if self.nack is None else self.nack.count + 1,
        )

    def forget(self, names: Iterable[str]) -> None:
        """The client no longer has these."""
        gone = self.held.keys() & set(names)
        if gone:
            self.held = {name: r for name, r in self.held.items() if name not in gone}
        self.leaving = self.leaving.difference(gone)

    def status(self, *, wall_offset: float) -> TypeStatus:
        """A copy for the outside; `wall_offset` turns this stream's times into wall clock."""

        def wall(at: float | None) -> float | None:
            return None if at is None else at + wall_offset

        nack = self.nack
        if nack is not None:
            nack = replace(nack, since=nack.since + wall_offset, last=nack.last + wall_offset)
        return TypeStatus(
            type_url=self.type_url,
            names=self.names,
            wildcard=self.wildcard,
            resources=len(self.held),
            nonce_sent=self.nonce_sent,
            version_sent=self.version_sent,
            sent_at=wall(self.sent_at),
            nonce_acked=self.nonce_acked,
            version_acked=self.version_acked,
            acked_at=wall(self.acked_at),
            nack=nack,
            nacks=self.nacks,
        )


def wanted(generated: Generated, subscription: Subscription) -> Mapping[str, Resource]:
    """The generated resources the client subscribes to; the shared mapping if that is all."""
    everything = generated.by_name()
    if subscription.wildcard:
        return everything
    watch = subscription.watch
    wanted_ones = {name: r for name, r in everything.items() if watch.covers(name)}
    return everything if len(wanted_ones) == len(everything) else wanted_ones


def changed(state: Mapping[str, Resource], held: Mapping[str, Resource]) -> Mapping[str, Resource]:
    """What of `state` the client does not have; the same mapping if that is all of it."""
    if state is held:
        return {}
    new = {
        name: resource
        for name, resource in state.items()
        if (old := held.get(name)) is not resource
        and (old is None or old.version != resource.version or old.ttl_s != resource.ttl_s)
    }
    return state if len(new) == len(state) else new
