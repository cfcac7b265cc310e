"""One subscription: what a client wants of a type, and what it has, in either dialect.

No gRPC and no clock: `_sotw` and `_delta` say how requests change it and which responses follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from xds_server.monitoring._status import Nack, TypeStatus
from xds_server.protocol._names import NO_NAMES
from xds_server.protocol._request import ClientError
from xds_server.protocol._resources_by_name import NO_RESOURCES, ResourcesByName
from xds_server.protocol._watch import Watch

WILDCARD = "*"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that a stream needs from a generator, and how to answer with them.

    `requested`: the client asked, so names that are not generated do not exist; unset, this is part
    of a push. `force`: the client gets the resources even if it has them. `even_if_empty`: it waits
    for a response, so it gets one even if there are no resources.
    """

    type_url: str
    watch: Watch
    requested: bool = False
    force: bool = False
    even_if_empty: bool = False


class RequestOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request: queries that answer it, the refusal in it, an expired nonce."""

    queries: tuple[Query, ...] = ()
    refused: ClientError | None = None
    stale: bool = False


NO_OUTCOME = RequestOutcome()
"""The outcome of an ACK."""


class RemovalTime(NamedTuple):
    """When a resource that may still be referred to went, and when that is sent, if known."""

    since: float
    due_at: float | None = None


NO_REMOVAL_TIMES: Mapping[str, RemovalTime] = MappingProxyType({})
"""One for all, as most streams have none."""


class Subscription(msgspec.Struct, kw_only=True):
    """One type of one stream."""

    type_url: str
    names: frozenset[str] = NO_NAMES
    wildcard: bool = False
    implicit_wildcard: bool = False
    """Wildcard by an empty list of names, rather than by "*"."""

    client_has: ResourcesByName = msgspec.field(default_factory=lambda: NO_RESOURCES)
    """The resources the client has: those it was sent, and those it said it has."""
    answer: ResourcesByName = msgspec.field(default_factory=lambda: NO_RESOURCES)
    """The last complete answer while removals are held back from the client, which so has another;
    the next answer may be built from it."""
    pending_removals: frozenset[str] = NO_NAMES
    """Names of removed resources that may still be referred to; the client has them still."""
    removal_times: Mapping[str, RemovalTime] = msgspec.field(
        default_factory=lambda: NO_REMOVAL_TIMES
    )
    """When each of those was removed, and when the client is to hear of it."""

    shortest_ttl_s: float | None = None
    """The shortest TTL of resources that expire; None if none do."""
    refreshed_at: float = 0.0
    """When the first of the resources that expire was last sent."""

    nonce_sent: str = ""
    version_sent: str = ""
    sent_at: float | None = None
    nonce_acked: str = ""
    version_acked: str = ""
    acked_at: float | None = None
    nack: Nack | None = None
    nacks: int = 0

    _watch: Watch | None = None
    _query: Query | None = None

    @property
    def watch(self) -> Watch:
        """The watch of the subscription; the same object until its names change."""
        watch = self._watch
        if watch is None or watch.names is not self.names or watch.wildcard != self.wildcard:
            watch = Watch(type_url=self.type_url, names=self.names, wildcard=self.wildcard)
            self._watch = watch
        return watch

    @property
    def query(self) -> Query:
        """The query of a push; the same object until the names change."""
        watch, query = self.watch, self._query
        if query is None or query.watch is not watch:
            query = self._query = Query(type_url=self.type_url, watch=watch)
        return query

    @property
    def heartbeat_at(self) -> float | None:
        """When resources that expire are to be sent again; None: not before an ACK."""
        if self.shortest_ttl_s is None or not self.nonce_acked or not self.is_answered:
            return None
        return self.refreshed_at + self.shortest_ttl_s / 2

    @property
    def is_answered(self) -> bool:
        """Whether the client has accepted or refused the last response."""
        return self.nonce_sent == self.nonce_acked or (
            self.nack is not None and self.nack.nonce == self.nonce_sent
        )

    def record_response(self, *, nonce: str, version: str, now: float) -> None:
        """Take note of a response."""
        self.nonce_sent, self.version_sent, self.sent_at = nonce, version, now

    def record_ack(self, *, now: float) -> None:
        """Take note that the client accepted the last response."""
        self.nonce_acked, self.version_acked, self.acked_at = (
            self.nonce_sent,
            self.version_sent,
            now,
        )
        self.nack = None

    def record_nack(self, error: ClientError, *, nonce: str, now: float) -> None:
        """Take note of a NACK; refusals in a row count as one that goes on."""
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
        """Take note that the client no longer has these resources."""
        gone = frozenset(name for name in names if name in self.client_has)
        if gone:
            self.client_has = self.client_has.without(gone)
            self.pending_removals = self.pending_removals.difference(gone) or NO_NAMES

    def status(self, *, wall_offset: float) -> TypeStatus:
        """Return the status for operators; `wall_offset` makes monotonic times wall clock."""

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
