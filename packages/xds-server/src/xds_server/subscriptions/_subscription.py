"""What one client wants of one type, and what it has: the model both dialects share.

Pure state: no gRPC, no clock. `_sotw` and `_delta` say what requests do to it and what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xds_server.monitoring._status import Nack, TypeStatus
from xds_server.protocol._request import ClientError
from xds_server.protocol._resources_by_name import NO_NAMES, NO_RESOURCES, ResourcesByName
from xds_server.protocol._watch import Watch

WILDCARD = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Something a stream needs generated, and how to answer with it.

    `requested`: the client asked, so what it named and is not generated does not exist; unset, this
    is a push. `force`: it gets what it asked for even if it has it. `even_if_empty`: it waits
    for an answer, so it gets one with nothing in it too.
    """

    type_url: str
    watch: Watch
    requested: bool = False
    force: bool = False
    even_if_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutcome:
    """What a request came to: what to generate for it, and what is worth counting."""

    queries: tuple[Query, ...] = ()
    refused: ClientError | None = None
    stale: bool = False


class RemovalTime(NamedTuple):
    """Something that is gone and may still be referred to: since when, and until when if known."""

    since: float
    due_at: float | None = None


NO_REMOVAL_TIMES: Mapping[str, RemovalTime] = {}
"""One for all, as most streams have none."""


@dataclass(slots=True, kw_only=True)
class Subscription:
    """One type of one stream."""

    type_url: str
    names: frozenset[str] = NO_NAMES
    wildcard: bool = False
    implicit_wildcard: bool = False
    """Wildcard by an empty list of names, rather than by "*"."""

    client_has: ResourcesByName = field(default_factory=lambda: NO_RESOURCES)
    """What the client has, as far as it was sent or has said."""
    pending_removals: frozenset[str] = NO_NAMES
    """Names that are gone but may still be referred to; the client hears of it last."""
    removal_times: Mapping[str, RemovalTime] = field(default_factory=lambda: NO_REMOVAL_TIMES)
    """When each of those began to leave, and when it is to have left."""

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

    _watch: Watch | None = None

    @property
    def watch(self) -> Watch:
        watch = self._watch
        if watch is None or watch.names is not self.names or watch.wildcard != self.wildcard:
            watch = Watch(type_url=self.type_url, names=self.names, wildcard=self.wildcard)
            self._watch = watch
        return watch

    @property
    def heartbeat_at(self) -> float | None:
        """When resources that expire are due to be heard of again; None: not before an ACK."""
        if self.shortest_ttl_s is None or not self.nonce_acked or not self.is_answered:
            return None
        return self.refreshed_at + self.shortest_ttl_s / 2

    @property
    def is_answered(self) -> bool:
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
        gone = frozenset(name for name in names if name in self.client_has)
        if gone:
            self.client_has = self.client_has.without(gone)
            self.pending_removals = self.pending_removals.difference(gone) or NO_NAMES

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
            resources=len(self.client_has),
            nonce_sent=self.nonce_sent,
            version_sent=self.version_sent,
            sent_at=wall(self.sent_at),
            nonce_acked=self.nonce_acked,
            version_acked=self.version_acked,
            acked_at=wall(self.acked_at),
            nack=nack,
            nacks=self.nacks,
        )
