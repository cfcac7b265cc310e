"""An open question to the upstreams, and the clients that wait for its answer."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from mesh_dnsproxy.answering._answerer import Forward
from mesh_dnsproxy.forwarding._cache import CacheKey, upstream_packet
from mesh_dnsproxy.forwarding._resolution import Resolution
from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.forwarding._shares import Client
from mesh_dnsproxy.forwarding._udp import Exchange
from mesh_dnsproxy.message._answer import error_answer, truncated_answer
from mesh_dnsproxy.message._codes import CD, NXDOMAIN, RCODE
from mesh_dnsproxy.message._query import HEADER_BYTES, Query
from mesh_dnsproxy.message._reply import cut


class Origin(StrEnum):
    """Where the answer to a forwarded query comes from."""

    CACHE = "cache"
    """an upstream's reply of before, which still holds"""
    STALE = "stale"
    """an expired one, as no upstream answers in time"""
    UPSTREAM = "upstream"
    NONE = "none"
    """no upstream answered, and no reply was kept: SERVFAIL"""


Observe = Callable[[Origin, Upstream | None], None]
"""Gets where an answer comes from, and from which upstream, before the answer is given."""


class Waiter:
    """A client's query that waits. reply: is called once, with the answer."""

    __slots__ = ("client", "forward", "observe", "question", "reply")

    def __init__(
        self,
        forward: Forward,
        reply: Callable[[bytes], None],
        observe: Observe | None,
        *,
        client: Client,
    ) -> None:
        self.forward: Final = forward
        self.reply: Final = reply
        self.observe: Final = observe
        self.client: Final = client
        self.question: Question | None = None
        """The question that it waits for, until it is answered."""

    def deliver(self, reply: bytes, origin: Origin, server: Upstream | None = None) -> None:
        """Answer with an upstream's reply: with the client's id and spelling, in its size."""
        if self.observe is not None:
            self.observe(origin, server)
        self.reply(_for_client(self.forward, reply))


class Question:
    """One question to the upstreams: its waiting clients, sockets and timers.

    client: the first who asked. share: the servers among whose questions it counts. packet: what
    is sent, with an id of its own each time.
    """

    def __init__(
        self,
        key: object,
        cached_as: CacheKey | None,
        query: Query,
        resolution: Resolution,
        *,
        client: Client,
        started: float,
        share: tuple[Upstream, ...],
    ) -> None:
        self.key = key
        self.cached_as = cached_as
        self.query = query
        self.packet = query.packet if cached_as is None else upstream_packet(cached_as)
        self.resolution = resolution
        self.client = client
        self.started = started
        self.share = share
        self.ended = False
        self.waiters: dict[Waiter, None] = {}
        self.exchanges: dict[int, Exchange | asyncio.Task[None]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.stale_timer: asyncio.TimerHandle | None = None

    def release(self) -> None:
        """Close its sockets and timers."""
        self.ended = True
        for timer in (self.timer, self.stale_timer):
            if timer is not None:
                timer.cancel()
        for exchange in self.exchanges.values():
            if isinstance(exchange, Exchange):
                exchange.close()
            else:
                exchange.cancel()
        self.exchanges.clear()


def _for_client(forward: Forward, reply: bytes) -> bytes:
    query, limit, known = forward
    if reply[4:6] == b"\0\0":
        return error_answer(query, reply[3] & RCODE)
    end = HEADER_BYTES + len(query.question)
    flags = reply[2:4]
    if known and flags[1] & RCODE == NXDOMAIN and not _wants_dnssec(query):
        # The mesh has the name, for other types. A resolver that keeps the reply that there is no
        # such name (RFC 8020) would forget its addresses.
        flags = bytes((flags[0], flags[1] & ~RCODE & 0xFF))
    reply = b"".join((query.packet[:2], flags, reply[4:HEADER_BYTES], query.question, reply[end:]))
    try:
        return cut(reply, end, limit)
    except ValueError:
        return truncated_answer(query)


def _wants_dnssec(query: Query) -> bool:
    """Return whether the client checks signatures, so that the reply must stay as it is."""
    return bool(query.flags & CD) or (query.edns is not None and query.edns.dnssec_ok)
