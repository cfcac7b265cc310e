"""The server: it serves what generators make on streams, and pushes it again after changes."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc
from msgspec.structs import replace

from mesh_lifecycle import Clock, SystemClock, in_background
from mesh_listening import PendingWrites
from xds_server._config import ServerConfig
from xds_server._errors import BadRequest, Refused, StreamRefused
from xds_server._memory_release import MemoryRelease
from xds_server.monitoring._no_metrics import no_metrics
from xds_server.monitoring._observer import NullObserver, StreamObserver
from xds_server.monitoring._status import ClientStatus
from xds_server.protocol._node import Node
from xds_server.protocol._resource import Resource
from xds_server.protocol._watch import Watch
from xds_server.pushing._debounce import Debounce, Debouncer, Gathered
from xds_server.pushing._push import Push
from xds_server.pushing._push_dispatch import PushDispatch
from xds_server.pushing._push_request import PushRequest, Updates
from xds_server.pushing._push_throttle import PushPermit
from xds_server.pushing._write_room import WriteRoom
from xds_server.sources._answerer import Answerer
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client, Generator
from xds_server.streams._admission import Admit, Peer, holder_of
from xds_server.streams._bad_requests import BadRequests, missing_request
from xds_server.streams._client_observers import ClientObservers
from xds_server.streams._connection import Connection, Taken, Write
from xds_server.streams._dependencies import Dependencies
from xds_server.streams._inbox import Read
from xds_server.streams._kept_bytes import KeptBytes, KeptLimits
from xds_server.streams._needs_push import NeedsPush
from xds_server.streams._stream_opener import StreamOpener, subject_of
from xds_server.streams._unserved import UnservedTypes
from xds_server.streams._work_share import WorkShare
from xds_server.streams.logs._client_log import ClientLog, LoggedStream
from xds_server.streams.logs._stream_log import RefusalLog
from xds_server.streams.pushes._push_description import PushDescriptions

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
    kept_bytes: Callable[[], int],
) -> Metrics:
    if registry is None:
        return no_metrics()
    from xds_server.monitoring._metrics import (
        Metrics,  # here, for the library behind it is not for everyone
    )

    return Metrics(
        registry,
        queue_length=queue_length,
        pending_writes=pending_writes,
        kept_bytes=kept_bytes,
    )


def _debouncer(config: ServerConfig, maximum_s: float, clock: Clock) -> Debouncer:
    return Debouncer(Debounce(quiet_s=config.debounce_quiet_s, maximum_s=maximum_s), clock=clock)


_NO_ANSWERERS: Mapping[str, Answerer[Any]] = MappingProxyType({})


def _always(_client: object, _request: PushRequest) -> bool:
    return True


class XdsServer(Generic[C]):
    """Serves what its generators make, and pushes it again when notified of a change.

    `generators` has one for each type URL served; `admit` decides over new streams. On a change
    `build` is called first, once, to bring the generators' state up to date; then every client
    for which `needs_push` holds is pushed to. `answerers` has one for each type URL that is asked
    and not watched: each request of it is a question, answered once. `running`, or `serving` around
    it, does the work.
    """

    def __init__(
        self,
        generators: Mapping[str, Generator[C]],
        *,
        admit: Admit[C],
        config: ServerConfig = ServerConfig(),  # noqa: B008  immutable
        build: Callable[[PushRequest], None] = _build_nothing,
        needs_push: Callable[[Client[C], PushRequest], bool] = _always,
        answerers: Mapping[str, Answerer[C]] = _NO_ANSWERERS,
        registry: CollectorRegistry | None = None,
        observer: StreamObserver[C] = NullObserver(),  # noqa: B008  stateless
        clock: Clock = SystemClock(),  # noqa: B008  stateless
    ) -> None:
        self.config = config
        self._build = build
        self._clock = clock
        self._connections: dict[str, Connection[C]] = {}
        self._pushes_waiting: PushDispatch[Connection[C]] = PushDispatch(
            self._start_push,
            reads_slowly=lambda connection: connection.reads_slowly,
            concurrent=config.concurrent_pushes,
            longest_s=config.slow_client_s,
        )
        self._debouncer = _debouncer(config, config.debounce_maximum_s, clock)
        self._incremental_debouncer = _debouncer(
            config, config.debounce_incremental_maximum_s, clock
        )
        self._pending_writes = PendingWrites(
            longest_s=config.send_timeout_s,
            max_bytes=config.max_pending_write_bytes,
            slow_s=config.stalled_client_s,
            max_holder_bytes=config.max_pending_write_bytes_per_identity,
            large_slow_s=config.slow_client_s,
            clock=clock,
        )
        self._memory = MemoryRelease(quiet_s=config.trim_memory_after_s, clock=clock)
        self._metrics = _instruments(
            registry,
            queue_length=self._pushes_waiting.__len__,
            pending_writes=lambda: self._pending_writes.bytes,
            kept_bytes=lambda: self._kept.bytes,
        )
        self._kept = KeptBytes(KeptLimits.from_config(config), on_over=self._metrics.over_limit.inc)
        self._work_share = WorkShare(clock)
        self._needs_push = NeedsPush(needs_push, metrics=self._metrics)
        self._bad_requests = BadRequests(self._metrics, clock=clock)
        self._dependencies = Dependencies(
            generators=generators,
            answerers=answerers,
            config=config,
            clock=clock,
            metrics=self._metrics,
            version=self._current_version,
            observer=observer,
            write_room=WriteRoom(
                self._pending_writes,
                to_readers_bytes=config.concurrent_write_bytes,
                most_bytes=config.max_pending_write_bytes,
            ),
            descriptions=PushDescriptions(config, metrics=self._metrics),
            unserved=UnservedTypes(
                self._metrics, served=generators, reported=config.reported_types
            ),
            refusals=RefusalLog(clock),
            kept=self._kept,
            on_refusal=self._bad_requests.record,
            work_share=self._work_share,
        )
        self._observer = observer
        self._client_log = ClientLog(log, clock=clock)
        self._client_observers = ClientObservers(generators, metrics=self._metrics)
        self._opener = StreamOpener(
            self._dependencies, admit=admit, is_behind=self._is_behind, clock=clock
        )
        self._updates = Updates()
        self._version = ""
        self._pushes = itertools.count(1)

    def notify(self, request: PushRequest, *, quiet_since: float | None = None) -> None:
        """Push a change: changes are gathered, built once, then pushed to the clients concerned.

        quiet_since: a time of the server's monotonic clock since when nothing else changed, as when
        a changed file took some time to read: the quiet time is counted from then.
        """
        if not request.changed:
            return
        self._count_inbound(request)
        debouncer = self._incremental_debouncer if request.incremental else self._debouncer
        debouncer.add(request, quiet_since=quiet_since)

    def push_now(self, request: PushRequest) -> None:
        """Push a change as `notify` does, but without gathering: built before this returns."""
        if not request.changed:
            return
        self._count_inbound(request)
        try:
            self._push(request)
        finally:
            self._count_committed(1)

    def updates(self) -> Updates:
        """Return how many changes came in, and how many of them are done with."""
        return self._updates

    def set_ready(self) -> None:
        """Say that the first state is complete; before that, streams get UNAVAILABLE."""
        self._opener.ready = True

    def clients(self) -> tuple[ClientStatus, ...]:
        """Return the status of every stream: what it was sent, has refused and accepted."""
        return tuple(connection.status() for connection in self._connections.values())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Gather and push changes for as long as the context lasts; `serving` enters it."""
        async with AsyncExitStack() as stack:
            for service, name in (
                (self._debouncer.run(self._push_gathered), "xds debounce"),
                (self._incremental_debouncer.run(self._push_gathered), "xds incremental debounce"),
                (self._pending_writes.run(), "xds untaken responses"),
                (self._opener.last_clusters.run(), "xds clusters of clients that have gone"),
                (self._memory.run(), "xds memory"),
            ):
                await stack.enter_async_context(in_background(service, name=name))
            stack.enter_context(self._pushes_waiting.running())
            yield

    async def serve_stream(
        self,
        peer: Peer,
        read: Read,
        write: Write,
        *,
        delta: bool,
        type_url: str | None = None,
        taken: Taken | None = None,
    ) -> None:
        """Serve one stream, given a way to read its messages and a way to write.

        `type_url` is set for the services of one type. `taken` returns how many bytes the client
        has taken so far, if that is known, which tells a slow reader of a large response from
        one that does not read. Raises `Refused` with the status that the stream is to end with.
        """
        await self._opener.wait_for_rate()
        self._opener.check_ready()
        peer_label = holder_of((), peer)
        try:
            connection = await self._opener.open(peer, read, delta=delta, type_url=type_url)
            if connection is not None:
                connection.open_account()
        except BadRequest as bad:
            self._bad_requests.record(bad, peer_label)
            raise
        if connection is None:
            # gRPC ends a call whose message is too large for it, and says so to the client only.
            self._bad_requests.record(missing_request(self.config.max_request_bytes), peer_label)
            return
        address = peer.address
        del peer  # and with it the call's headers, which are of no use for the rest of the stream
        node = connection.client.node
        self._connections[connection.client.id] = connection
        self._memory.count(len(self._connections))
        gauge = self._metrics.clients.labels(node.user_agent.partition("/")[0] or "unknown")
        gauge.inc()
        logged: LoggedStream | None = None
        try:
            self._observe_open(connection.client, peer=peer_label, address=address)
            subject = subject_of(node, peer_label)
            logged = self._client_log.on_connect(subject, connection.log_facts())
            self._push_to_watchers(self._client_observers.on_connect(connection.client))
            await connection.run(read, write, taken)
        except BadRequest as bad:
            self._bad_requests.record(bad, peer_label, client=connection.client.id)
            raise
        finally:
            gauge.dec()
            del self._connections[connection.client.id]
            self._memory.count(len(self._connections))
            self._pushes_waiting.discard(connection)
            self._opener.on_close(connection)
            if logged is not None:
                self._client_log.on_disconnect(logged, connection.log_facts())
            self._push_to_watchers(self._client_observers.on_disconnect(connection.client))
            self._observer.on_close(connection.client)

    def _observe_open(self, client: Client[C], *, peer: str, address: str) -> None:
        """Call the observer for an admitted client, which it may refuse: then it raises `Refused`.

        A client that is refused will be back, again and again. So its streams have no lines of
        their own, but those of the refusal.
        """
        try:
            self._observer.on_open(client)
        except Refused as refused:
            self._opener.on_refusal(client.node, refused, peer=peer, address=address)
            raise
        self._opener.on_admission(client.node, peer=peer)

    async def admit_client(self, node: Node | None, peer: Peer) -> Client[C]:
        """Ask `admit` about a client outside of any stream. Raises `Refused`."""
        client = await self._opener.admit_client(node, peer)
        self._opener.on_admission(client.node, peer=holder_of((), peer))
        return client

    def generate(self, client: Client[C], watch: Watch) -> Generated | None:
        """Return what a client gets of one type now, outside of any stream. Raises `Refused`."""
        generator = self._dependencies.generators.get(watch.type_url)
        if generator is None:
            raise StreamRefused(grpc.StatusCode.NOT_FOUND, f"{watch.type_url!r} is not served")
        return generator.generate(client, watch, None)

    def identifier(self) -> str:
        """Return what an answer outside of any stream names as its control plane."""
        return self._dependencies.descriptions.describe(None).identifier

    def sent_to(self, client_id: str) -> Mapping[str, tuple[Resource, ...]]:
        """Return the resources that a connected client has, by type; secrets are among them.

        Empty for a client that is not connected. Resources that a client said it has from an older
        stream are known by name and version only.
        """
        connection = self._connections.get(client_id)
        return {} if connection is None else connection.sent_resources()

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
        self._memory.on_push()
        concerned = [c for c in self._connections.values() if self._needs_push(c, request)]
        for connection in concerned:
            self._pushes_waiting.enqueue(connection, request)
        return len(concerned)

    def _is_behind(self, connection: Connection[C], /, *, pushing: bool) -> bool:
        """Return whether there may be something newer than a connection was sent."""
        if self._pushes_waiting.is_behind(connection, taken=pushing):
            return True
        gathered = (self._debouncer.waiting, self._incremental_debouncer.waiting)
        return any(r is not None and self._needs_push(connection, r) for r in gathered)

    def _push_to_watchers(self, request: PushRequest | None) -> None:
        """Push a change of the connected clients to the clients that watch the types with them."""
        if request is None:
            return
        self._next_version()
        for connection in self._connections.values():
            if connection.watches(self._client_observers.type_urls):
                self._pushes_waiting.enqueue(connection, request)

    def _start_push(
        self, connection: Connection[C], request: PushRequest, permit: PushPermit
    ) -> None:
        done = partial(self._pushes_waiting.mark_done, connection)
        connection.start_push(Push(request=request, permit=permit, done=done))
