"""The server: generators on one side, streams on the other, changes pushed in between."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc

from mesh_lifecycle import Clock, SystemClock, in_background
from mesh_listening import PendingWrites
from xds_server._config import ServerConfig
from xds_server._errors import BadRequest, Refused, StreamRefused
from xds_server._memory_release import MemoryRelease
from xds_server.monitoring._no_metrics import no_metrics
from xds_server.monitoring._observer import NullObserver, StreamObserver
from xds_server.monitoring._status import ClientStatus
from xds_server.protocol._node import Node
from xds_server.protocol._request import DeltaRequest, Parsed, SotwRequest, parse_delta, parse_sotw
from xds_server.protocol._resource import Resource
from xds_server.protocol._watch import Watch
from xds_server.pushing._debounce import Debounce, Debouncer, Gathered
from xds_server.pushing._push_queue import PushQueue
from xds_server.pushing._push_request import PushRequest, Updates
from xds_server.pushing._push_throttle import PushThrottle
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client, Generator
from xds_server.streams._admission import Admit, Peer
from xds_server.streams._bad_requests import BadRequests, missing_request, peer_name
from xds_server.streams._client_observers import ClientObservers
from xds_server.streams._connection import (
    Connection,
    Dependencies,
    Parse,
    Push,
    Read,
    Write,
    check_request,
)
from xds_server.streams._endpoints_in_doubt import EndpointsInDoubt
from xds_server.streams._last_clusters import LastClusters
from xds_server.streams._push_description import PushDescriptions
from xds_server.streams._rate_limit import RateLimit
from xds_server.streams._request_size import check_size
from xds_server.streams._unserved import UnservedTypes
from xds_server.subscriptions._delta import DeltaState
from xds_server.subscriptions._sotw import SotwState
from xds_server.subscriptions._stream_state import StreamState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

C = TypeVar("C")


def _build_nothing(_request: PushRequest) -> None:
    """Generators that work on live state have nothing to build."""


def _instruments(
    registry: CollectorRegistry | None,
    *,
    queue_length: Callable[[], int],
    pending_writes: Callable[[], int],
) -> Metrics:
    if registry is None:
        return no_metrics()
    from xds_server.monitoring._metrics import (
        Metrics,  # here, for the library behind it is not for everyone
    )

    return Metrics(registry, queue_length=queue_length, pending_writes=pending_writes)


def _debouncer(config: ServerConfig, maximum_s: float, clock: Clock) -> Debouncer:
    return Debouncer(Debounce(quiet_s=config.debounce_quiet_s, maximum_s=maximum_s), clock=clock)


def _always(_client: object, _request: PushRequest) -> bool:
    return True


class XdsServer(Generic[C]):
    """Serves what its generators make, and pushes it again when told of a change.

    `generators` has one for each type URL served; `admit` decides over new streams. On a change
    `build` is called first, once, to bring the generators' state up to date; then every client
    for which `needs_push` holds is pushed to. `running`, or `serving` around it, does the work.
    """

    def __init__(
        self,
        generators: Mapping[str, Generator[C]],
        *,
        admit: Admit[C],
        config: ServerConfig = ServerConfig(),  # noqa: B008  immutable
        build: Callable[[PushRequest], None] = _build_nothing,
        needs_push: Callable[[Client[C], PushRequest], bool] = _always,
        registry: CollectorRegistry | None = None,
        observer: StreamObserver[C] = NullObserver(),  # noqa: B008  stateless
        clock: Clock = SystemClock(),  # noqa: B008  stateless
    ) -> None:
        self.config = config
        self._admit = admit
        self._build = build
        self._needs_push = needs_push
        self._clock = clock
        self._connections: dict[str, Connection[C]] = {}
        self._queue: PushQueue[Connection[C]] = PushQueue()
        self._throttle = PushThrottle(config.concurrent_pushes)
        self._streams_rate = RateLimit(
            config.streams_per_second, longest_wait_s=config.stream_wait_s, clock=clock
        )
        self._debouncer = _debouncer(config, config.debounce_maximum_s, clock)
        self._incremental_debouncer = _debouncer(
            config, config.debounce_incremental_maximum_s, clock
        )
        self._pending_writes = PendingWrites(
            longest_s=config.send_timeout_s,
            max_bytes=config.max_pending_write_bytes,
            slow_s=config.slow_client_s,
            clock=clock,
        )
        self._memory = MemoryRelease(quiet_s=config.trim_memory_after_s, clock=clock)
        self._metrics = _instruments(
            registry,
            queue_length=self._queue.__len__,
            pending_writes=lambda: self._pending_writes.bytes,
        )
        self._dependencies = Dependencies(
            generators=generators,
            config=config,
            clock=clock,
            metrics=self._metrics,
            version=self._current_version,
            observer=observer,
            pending_writes=self._pending_writes,
            descriptions=PushDescriptions(config, metrics=self._metrics),
            unserved=UnservedTypes(self._metrics),
            is_behind=self._is_behind,
        )
        self._observer = observer
        self._bad_requests = BadRequests(self._metrics, clock=clock)
        self._client_observers = ClientObservers(generators, metrics=self._metrics)
        self._endpoints_in_doubt = EndpointsInDoubt()
        self._last_clusters = LastClusters(clock=clock)
        self._updates = Updates()
        self._failed_on: PushRequest | None = None
        self._ready = False
        self._version = ""
        self._pushes = itertools.count(1)
        self._stream_numbers = itertools.count(1)
        self._parsers: dict[tuple[bool, str | None], Parse] = {}

    def notify(self, request: PushRequest) -> None:
        """Something changed. Changes are gathered, built once, then pushed to who needs them."""
        if not request.changed:
            return
        self._count_inbound(request)
        debouncer = self._incremental_debouncer if request.incremental else self._debouncer
        debouncer.add(request)

    def push_now(self, request: PushRequest) -> None:
        """As `notify`, but without gathering: built before this returns, then pushed."""
        if not request.changed:
            return
        self._count_inbound(request)
        try:
            self._push(request)
        finally:
            self._count_committed(1)

    def updates(self) -> Updates:
        """How many changes came in, and how many of them are done with."""
        return self._updates

    def mark_ready(self) -> None:
        """The first state is complete. Until then streams are refused with UNAVAILABLE."""
        self._ready = True

    def clients(self) -> tuple[ClientStatus, ...]:
        """Every stream and what it has been sent, refused and accepted."""
        return tuple(connection.status() for connection in self._connections.values())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Gather and push changes for as long as the context lasts; `serving` enters it."""
        async with AsyncExitStack() as stack:
            for service, name in (
                (self._debouncer.run(self._push_gathered), "xds debounce"),
                (self._incremental_debouncer.run(self._push_gathered), "xds incremental debounce"),
                (self._send_pushes(), "xds pushes"),
                (self._pending_writes.run(), "xds untaken responses"),
                (self._last_clusters.run(), "xds clusters of clients that have gone"),
                (self._memory.run(), "xds memory"),
            ):
                await stack.enter_async_context(in_background(service, name=name))
            yield

    async def serve_stream(
        self,
        peer: Peer,
        read: Read,
        write: Write,
        *,
        delta: bool,
        type_url: str | None = None,
    ) -> None:
        """Serve one stream, given a way to read its messages and a way to write.

        `type_url` is set for the services of one type. Raises `Refused` with the status a client
        is to be sent away with.
        """
        if not await self._streams_rate.admit():
            raise StreamRefused(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "too many new streams, try again later"
            )
        self._check_ready()
        who = peer_name(peer)
        try:
            connection = await self._open_connection(peer, read, delta=delta, type_url=type_url)
        except BadRequest as bad:
            self._bad_requests.note(bad, who)
            raise
        if connection is None:
            # gRPC ends a call whose message is too large for it, and says so to the client only.
            self._bad_requests.note(missing_request(self.config.max_request_bytes), who)
            return
        del peer  # and with it the call's headers, which are of no use for the rest of the stream
        node = connection.client.node
        self._connections[connection.client.id] = connection
        self._memory.count(len(self._connections))
        gauge = self._metrics.clients.labels(node.user_agent.partition("/")[0] or "unknown")
        gauge.inc()
        log.info("client connected", extra=connection.log_facts())
        try:
            self._observer.opened(connection.client)
            self._push_to_watchers(self._client_observers.connected(connection.client))
            await connection.run(read, write)
        except BadRequest as bad:
            self._bad_requests.note(bad, who, client=connection.client.id)
            raise
        finally:
            gauge.dec()
            del self._connections[connection.client.id]
            self._memory.count(len(self._connections))
            self._queue.discard(connection)
            self._endpoints_in_doubt.closed(node.id, connection.state.warming)
            if isinstance(connection.state, SotwState):
                self._last_clusters.closed(node.id, connection.state)
            log.info("client disconnected", extra=connection.log_facts())
            self._push_to_watchers(self._client_observers.disconnected(connection.client))
            self._observer.closed(connection.client)

    async def admit_client(self, node: Node | None, peer: Peer) -> Client[C]:
        """Ask `admit` about a client. Raises `Refused`, also if it does not say who it is."""
        self._check_ready()
        if node is None or not node.id:
            raise BadRequest(
                grpc.StatusCode.INVALID_ARGUMENT,
                "missing node information: the first request of a stream needs node.id",
            )
        try:
            admission = await self._admit(node, peer)
        except Refused as refused:
            log.warning(
                "client refused",
                extra={"node": node.id, "address": peer.address, "reason": refused.message},
            )
            raise
        return Client(
            id=f"{node.id}-{next(self._stream_numbers)}",
            node=node,
            identities=admission.identities,
            context=admission.context,
            drain_time_s=admission.drain_time_s,
        )

    def generate(self, client: Client[C], watch: Watch) -> Generated | None:
        """What a client gets of one type now, outside of any stream. Raises `Refused`."""
        generator = self._dependencies.generators.get(watch.type_url)
        if generator is None:
            raise StreamRefused(grpc.StatusCode.NOT_FOUND, f"{watch.type_url!r} is not served")
        return generator.generate(client, watch, None)

    def identifier(self) -> str:
        """What an answer outside of any stream names as its control plane."""
        return self._dependencies.descriptions.of(None).identifier

    def sent_to(self, client_id: str) -> Mapping[str, tuple[Resource, ...]]:
        """What a connected client was sent and has not been told is gone, by type.

        Empty for a client that is not there. Resources of clients that said they have something
        from an older stream are known by name and version only. Secrets are among them.
        """
        connection = self._connections.get(client_id)
        return {} if connection is None else connection.client_has()

    async def _first_request(self, read: Read) -> object:
        longest_s = self.config.first_request_within_s
        try:
            async with asyncio.timeout(longest_s):
                return await read()
        except TimeoutError:
            raise BadRequest(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"no request came within {longest_s:g} s"
            ) from None

    def _check_ready(self) -> None:
        if not self._ready:
            raise StreamRefused(
                grpc.StatusCode.UNAVAILABLE, "not ready: the first configuration is being built"
            )

    async def _open_connection(
        self, peer: Peer, read: Read, *, delta: bool, type_url: str | None
    ) -> Connection[C] | None:
        """A connection with its first request; None if there was none. Raises `Refused`."""
        data = await self._first_request(read)
        if not isinstance(data, bytes):
            return None
        parsed = self._parse(data, delta=delta, with_node=True)
        first = check_request(parsed.request, type_url=type_url, config=self.config)
        client = await self.admit_client(parsed.node, peer)
        kind: type[StreamState[Any]] = DeltaState if delta else SotwState
        state = kind(
            nonce_prefix=secrets.token_hex(4),
            order_wait_s=self.config.order_wait_s,
            hold_until_ack_s=self.config.hold_until_ack_s,
            drain_time_s=self.config.drain_time_s
            if client.drain_time_s is None
            else client.drain_time_s,
            now=self._clock.monotonic,
            version=self._dependencies.version,
        )
        if isinstance(state, DeltaState):
            state.in_doubt = self._endpoints_in_doubt.opened(client.node.id, state.warming)
        elif isinstance(state, SotwState):
            state.before = self._last_clusters.opened(client.node.id, state)
        return Connection(
            client,
            state,
            first=first,
            server=self._dependencies,
            parse=self._parser(delta=delta, type_url=type_url),
            address=peer.address,
            delta=delta,
        )

    def _parse(self, data: bytes, *, delta: bool, with_node: bool) -> Parsed:
        check_size(data, delta=delta, config=self.config)
        return (parse_delta if delta else parse_sotw)(data, with_node=with_node)

    def _parser(self, *, delta: bool, type_url: str | None) -> Parse:
        """How requests after the first are read: one object for all streams of a kind."""
        parse = self._parsers.get((delta, type_url))
        if parse is None:
            parse = partial(self._parse_next, delta=delta, type_url=type_url)
            self._parsers[delta, type_url] = parse
        return parse

    def _parse_next(
        self, data: bytes, *, delta: bool, type_url: str | None
    ) -> SotwRequest | DeltaRequest:
        request = self._parse(data, delta=delta, with_node=False).request
        return check_request(request, type_url=type_url, config=self.config)

    def _current_version(self) -> str:
        if not self._version:
            self._next_version()
        return self._version

    def _next_version(self) -> None:
        now = datetime.fromtimestamp(self._clock.now(), tz=UTC)
        self._version = f"{now.isoformat(timespec='seconds')}/{next(self._pushes)}"

    def _count_inbound(self, request: PushRequest) -> None:
        self._metrics.inbound_updates.inc("incremental" if request.incremental else "full")
        self._updates = replace(self._updates, inbound=self._updates.inbound + 1)

    def _count_committed(self, changes: int) -> None:
        self._metrics.committed_updates.inc("", changes)
        self._updates = replace(self._updates, committed=self._updates.committed + changes)

    def _push_gathered(self, gathered: Gathered) -> None:
        waited = self._clock.monotonic() - gathered.first_at
        self._metrics.debounce_time.observe(waited)
        try:
            queued = self._push(gathered.request)
        except Exception:  # A failed build costs one push, not the server.
            self._metrics.internal_errors.inc()
            log.exception(
                "building a push failed; clients keep what they have until the next change",
                extra={"reasons": gathered.request.described_reasons()},
            )
            return
        finally:
            self._count_committed(gathered.changes)
        log.info(
            "pushing changes",
            extra={
                "changes": gathered.changes,
                "incremental": gathered.request.incremental,
                "reasons": gathered.request.described_reasons(),
                "debounced_s": round(waited, 3),
                "clients": queued,
                "version": self._version,
            },
        )

    def _push(self, request: PushRequest) -> int:
        """Build what changed and queue the clients that need it; return how many they are."""
        started = self._clock.monotonic()
        self._build(request)
        self._metrics.build_time.observe(self._clock.monotonic() - started)
        self._next_version()
        for trigger in request.triggers or ("unknown",):
            self._metrics.triggers.inc(trigger)
        self._memory.pushed()
        concerned = [c for c in self._connections.values() if self._concerns(c, request)]
        for connection in concerned:
            self._queue.enqueue(connection, request)
        return len(concerned)

    def _concerns(self, connection: Connection[C], request: PushRequest) -> bool:
        try:
            return self._needs_push(connection.client, request)
        except Exception:  # A fault of the filter costs a push too many, not one too few.
            self._metrics.internal_errors.inc()
            if request is not self._failed_on:  # once a push, not once a client
                self._failed_on = request
                log.exception(
                    "asking whether a client needs a push failed; clients like it are pushed to",
                    extra=connection.log_facts(),
                )
            return True

    def _is_behind(self, connection: Connection[C], pushing: bool) -> bool:  # noqa: FBT001
        """Whether there may be something newer than what a connection was last brought."""
        if self._queue.is_behind(connection, taken=pushing):
            return True
        gathered = (self._debouncer.waiting, self._incremental_debouncer.waiting)
        return any(r is not None and self._concerns(connection, r) for r in gathered)

    def _push_to_watchers(self, request: PushRequest | None) -> None:
        """Push what followers were told of, to who watches them only."""
        if request is None:
            return
        self._next_version()
        for connection in self._connections.values():
            if connection.watches(self._client_observers.type_urls):
                self._queue.enqueue(connection, request)

    async def _send_pushes(self) -> None:
        while True:
            taken = await self._queue.dequeue()
            if taken is None:
                return  # shut down, which this server never does
            connection, request = taken
            permit = (
                self._throttle.none() if connection.reads_slowly else await self._throttle.acquire()
            )
            if connection.client.id in self._connections:
                permit.release_after(self.config.slow_client_s)
                done = partial(self._queue.mark_done, connection)
                connection.start_push(Push(request=request, permit=permit, done=done))
                del done
            else:
                permit.release()
            del connection, request, permit, taken  # not kept until the next push
