"""How a stream begins: its first request, the admission of its client, and its state.

The server remembers what a node may have kept from its last stream, and the state begins with that.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from functools import partial
from typing import Any, Generic, TypeVar

import grpc

from mesh_lifecycle import Clock, RepeatLog
from xds_server._errors import BadRequest, Refused, StreamRefused
from xds_server.protocol._node import Node
from xds_server.protocol._request import DeltaRequest, Parsed, SotwRequest
from xds_server.protocol._request_parsing import parse_delta, parse_sotw
from xds_server.sources._generator import Client
from xds_server.streams._admission import Admit, Peer, holder_of
from xds_server.streams._connection import Connection
from xds_server.streams._dependencies import Dependencies, IsBehind
from xds_server.streams._endpoints_in_doubt import EndpointsInDoubt
from xds_server.streams._inbox import Parse, Read
from xds_server.streams._last_clusters import LastClusters
from xds_server.streams._limits import check_node, check_request, check_size
from xds_server.streams._rate_limit import RateLimit
from xds_server.streams._work_share import LARGE_BYTES
from xds_server.subscriptions._delta import DeltaState
from xds_server.subscriptions._sotw import SotwState
from xds_server.subscriptions._stream_state import StreamState

log = logging.getLogger(__name__)

C = TypeVar("C")

_LONGEST_NAME = 300
"""Characters of a node's name in the log: a client chooses it."""


def subject_of(node: Node, peer: str) -> str:
    """Return what a client is known by in the log. peer: as `holder_of` names it."""
    return f"{peer} {node.id[:_LONGEST_NAME]}"


def _cannot_give_way(_because: BadRequest) -> None:
    """Leave a request that waits for its turn: it is over by itself, sooner than it could be."""


class StreamOpener(Generic[C]):
    """Opens the streams of one server."""

    def __init__(
        self,
        dependencies: Dependencies[C],
        *,
        admit: Admit[C],
        is_behind: IsBehind[Connection[C]],
        clock: Clock,
    ) -> None:
        self.last_clusters = LastClusters(clock=clock)
        self.ready = False
        """Until it is set, streams are refused with UNAVAILABLE."""
        self._dependencies = dependencies
        self._config = dependencies.config
        self._admit = admit
        self._is_behind = is_behind
        self._refused = RepeatLog(log, "client refused", now=clock.monotonic)
        self._clock = clock
        self._rate = RateLimit(
            self._config.streams_per_second,
            longest_wait_s=self._config.stream_wait_s,
            clock=clock,
        )
        self._endpoints_in_doubt = EndpointsInDoubt()
        self._stream_numbers = itertools.count(1)
        self._parsers: dict[tuple[bool, str | None], Parse] = {}

    async def open(
        self, peer: Peer, read: Read, *, delta: bool, type_url: str | None
    ) -> Connection[C] | None:
        """Return the connection of a new stream; None if it ended without a request.

        Raises `Refused`.
        """
        data = await self._first_request(read)
        if not isinstance(data, bytes):
            return None
        parsed = await self._parse_first(data, holder_of((), peer), delta=delta)
        del data
        first = check_request(parsed.request, type_url=type_url, config=self._config)
        client = await self.admit_client(parsed.node, peer, delta=delta)
        return Connection(
            client,
            self._new_state(client, delta=delta),
            first=first,
            server=self._dependencies,
            is_behind=self._is_behind,
            parse=self._parser(delta=delta, type_url=type_url),
            address=peer.address,
            holder=holder_of(client.identities, peer),
            delta=delta,
        )

    def on_refusal(self, node: Node, refused: Refused, *, peer: str, address: str) -> None:
        """Log that a client is refused, if it is no repeat. peer: as `holder_of` names it."""
        facts = {"node": node.id[:_LONGEST_NAME], "address": address, "code": refused.code.name}
        self._refused.happened(subject_of(node, peer), reason=refused.logged_reason, facts=facts)

    def on_admission(self, node: Node, *, peer: str) -> None:
        """Note that a client is served, and log that it is refused no longer if it was."""
        self._refused.ended(subject_of(node, peer))

    def on_close(self, connection: Connection[C]) -> None:
        """Remember what the client of a stream that is over may keep for its next one."""
        node_id, state = connection.client.node.id, connection.state
        self._endpoints_in_doubt.on_close(node_id, state.warming)
        if isinstance(state, SotwState):
            self.last_clusters.on_close(node_id, state)

    async def wait_for_rate(self) -> None:
        """Wait as the limit of new streams a second demands. Raises `Refused`."""
        if not await self._rate.admit():
            raise StreamRefused(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "too many new streams, try again later"
            )

    def check_ready(self) -> None:
        """Raise `Refused` until the first configuration is complete."""
        if not self.ready:
            raise StreamRefused(
                grpc.StatusCode.UNAVAILABLE, "not ready: the first configuration is being built"
            )

    async def admit_client(
        self, node: Node | None, peer: Peer, *, delta: bool = False
    ) -> Client[C]:
        """Ask `admit` about a client. Raises `Refused`, also if its node has no id."""
        self.check_ready()
        check_node(node)
        if node is None or not node.id:
            raise BadRequest(
                grpc.StatusCode.INVALID_ARGUMENT,
                "missing node information: the first request of a stream needs node.id",
            )
        try:
            admission = await self._admit(node, peer)
        except Refused as refused:
            self.on_refusal(node, refused, peer=holder_of((), peer), address=peer.address)
            raise
        return Client(
            id=f"{node.id}-{next(self._stream_numbers)}",
            node=node,
            identities=admission.identities,
            context=admission.context,
            drain_time_s=admission.drain_time_s,
            delta=delta,
        )

    def _new_state(self, client: Client[C], *, delta: bool) -> StreamState[Any]:
        kind: type[StreamState[Any]] = DeltaState if delta else SotwState
        drain_time_s = client.drain_time_s
        state = kind(
            nonce_prefix=secrets.token_hex(4),
            order_wait_s=self._config.order_wait_s,
            hold_until_ack_s=self._config.hold_until_ack_s,
            drain_time_s=self._config.drain_time_s if drain_time_s is None else drain_time_s,
            now=self._clock.monotonic,
            version=self._dependencies.version,
        )
        if isinstance(state, DeltaState):
            state.in_doubt = self._endpoints_in_doubt.on_open(client.node.id, state.warming)
        elif isinstance(state, SotwState):
            state.before = self.last_clusters.on_open(client.node.id, state)
        return state

    async def _first_request(self, read: Read) -> object:
        longest_s = self._config.first_request_within_s
        try:
            async with asyncio.timeout(longest_s):
                return await read()
        except TimeoutError:
            raise BadRequest(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"no request came within {longest_s:g} s"
            ) from None

    async def _parse_first(self, data: bytes, holder: str, *, delta: bool) -> Parsed:
        """Parse a first request, once it is its peer's turn. Raises `BadRequest`."""
        work = self._dependencies.work_share
        if len(data) <= LARGE_BYTES:
            work.on_request(holder)
            return self._parse(data, delta=delta, with_node=True)
        # What waits for its turn is in memory, too.
        waiting = self._dependencies.kept.open_account(holder, close=_cannot_give_way)
        try:
            waiting.keep("request", len(data))
            await work.wait(holder)
            began = time.monotonic()
            try:
                return self._parse(data, delta=delta, with_node=True)
            finally:
                work.count_work(holder, time.monotonic() - began)
        finally:
            waiting.release()

    def _parse(self, data: bytes, *, delta: bool, with_node: bool) -> Parsed:
        check_size(data, delta=delta, config=self._config)
        return (parse_delta if delta else parse_sotw)(data, with_node=with_node)

    def _parser(self, *, delta: bool, type_url: str | None) -> Parse:
        """Return the parser of requests after the first: one object for all streams of a kind."""
        parse = self._parsers.get((delta, type_url))
        if parse is None:
            parse = partial(self._parse_next, delta=delta, type_url=type_url)
            self._parsers[delta, type_url] = parse
        return parse

    def _parse_next(
        self, data: bytes, *, delta: bool, type_url: str | None
    ) -> SotwRequest | DeltaRequest:
        request = self._parse(data, delta=delta, with_node=False).request
        return check_request(request, type_url=type_url, config=self._config)
