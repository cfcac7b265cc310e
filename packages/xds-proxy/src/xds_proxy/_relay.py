"""The relay: a gRPC server on Envoy's socket that opens one upstream stream for each of Envoy's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import grpc
import grpc.aio

from mesh_lifecycle import Backoff, Clock, SystemClock
from mesh_listening import ListenError, LogLimiter, Port, grpc_acceptor, grpc_server, listening_at
from xds_proxy._config import RelayConfig
from xds_proxy._errors import ConfigError, SocketError, UpstreamError
from xds_proxy.protocol._dialect import DIALECTS, SERVICE, Dialect
from xds_proxy.status._delivery_status import Ledger, TypeStatus
from xds_proxy.status._reachability import Connection, Counters
from xds_proxy.streams._interception import Interception, Interceptor
from xds_proxy.streams._leading_stream import MAX_STREAMS, Roster
from xds_proxy.streams._observation import Observation, ResponseObserver
from xds_proxy.streams._stream import End, GrpcSide, Side, Stream
from xds_proxy.streams._writing import Bounds
from xds_proxy.upstream._dialling import FurtherRoots, dialled

log = logging.getLogger("xds_proxy")

_STOP_GRACE_S = 1.0
_AGAIN = Backoff(initial_s=0.1, maximum_s=1.0, multiplier=1.5, jitter=0.2)
_LONGEST_DETAILS = 1024
_QUIET_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStatus:
    """One moment of the relay.

    connected: the control plane has answered on the stream.
    since: since when that has been so, or not so (UTC).
    last_error: why it is not, in words; None while connected and before the first attempt.
    types: what was sent and accepted, by type URL; the agent's own types too.
    streams: how many of Envoy's there are; two during a hot restart. What is said of "the stream"
        is said of the newest.
    """

    connected: bool
    since: datetime
    last_error: str | None
    types: Mapping[str, TypeStatus]
    streams: int


class Relay:
    """A running relay; made by `relaying`."""

    def __init__(
        self,
        config: RelayConfig,
        interceptors: Sequence[Interceptor],
        *,
        observer: ResponseObserver | None,
        further_roots: FurtherRoots | None = None,
        clock: Clock,
    ) -> None:
        self._further_roots = further_roots
        self._config = config
        self._observation = Observation(observer)
        self._clock = clock
        self._connection = Connection(config.upstream.address, clock=clock)
        self._interception = Interception(interceptors, now=self._connection.now)
        self._roster: Roster[Stream] = Roster()
        self._ledger = Ledger()
        self._bounds = Bounds.of(config, clock=clock)
        self._crowding = LogLimiter(quiet_s=_QUIET_S, now=clock.monotonic)
        self._stopping = False
        self._port: Port | None = None

    @property
    def status(self) -> RelayStatus:
        """What the relay knows now."""
        return RelayStatus(
            connected=self._connection.connected,
            since=self._connection.since,
            last_error=self._connection.last_error,
            types={**self._ledger.types, **self._interception.types},
            streams=len(self._roster.members),
        )

    @property
    def port(self) -> Port:
        """What counts the connections at Envoy's socket."""
        if self._port is None:
            raise RuntimeError("a relay has a port from when it serves")
        return self._port

    @property
    def pending_write_bytes(self) -> int:
        """What is on its way to Envoys and to the control plane, and has not been taken yet."""
        return self._bounds.to_envoys.bytes + self._bounds.to_control_plane.bytes

    @property
    def counters(self) -> Counters:
        """A copy of the totals since the relay started."""
        counters = self._connection.counters
        return replace(counters, refused=counters.refused + self._interception.refusals)

    async def _serve(self, dialect: Dialect, envoy: GrpcSide) -> None:
        stream = Stream(
            dialect=dialect,
            envoy=envoy,
            connection=self._connection,
            ledger=Ledger(self._ledger.types),
            interception=self._interception,
            observation=self._observation,
            bounds=self._bounds,
        )
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(stream.write_envoy(), name="xds-proxy: responses to Envoy")
            try:
                end = await self._joined(stream, dialect)
                if not stream.is_writing:
                    writing.cancel()
                await asyncio.wait([writing])
            finally:
                stream.forget()
        if end.code is not grpc.StatusCode.OK:
            await _tell_end(envoy, end)

    async def _joined(self, stream: Stream, dialect: Dialect) -> End:
        """Relay a stream as one of those there are, until it ends."""
        crowded_out = self._roster.join(stream)
        self._ledger = stream.ledger
        try:
            if crowded_out is not None:
                await self._end_crowded_out(crowded_out)
            if self._stopping:
                stream.end(_relay_end(grpc.StatusCode.UNAVAILABLE, "the agent is stopping"))
            end = await self._run(stream, dialect)
            self._settle(stream, end)
        except asyncio.CancelledError:
            self._settle(stream, End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))
            raise
        finally:
            self._observation.ended(stream)
            if self._roster.leave(stream) and (successor := self._roster.leader) is not None:
                self._ledger = successor.ledger
                log.info("an older stream of Envoy's leads again")
            stream.closed.set()
        return end

    async def _run(self, stream: Stream, dialect: Dialect) -> End:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._relay(stream, dialect), name="xds-proxy: stream")
            end = await stream.wait_end()
            work.cancel()
        return end

    async def _relay(self, stream: Stream, dialect: Dialect) -> None:
        give_up_at = self._clock.monotonic() + self._config.hold_s
        for delay_s in _AGAIN.delays():
            try:
                async with dialled(
                    self._config.upstream,
                    path=dialect.path,
                    max_message_bytes=self._config.max_message_bytes,
                    now=self._clock.now(),
                    further_roots=self._further_roots,
                ) as control_plane:
                    await stream.pass_on(control_plane)
            except UpstreamError as error:
                self._connection.failed(error.reason, leads=stream.leads)
                if self._clock.monotonic() + delay_s > give_up_at:
                    stream.end(self._unreachable(error))
                    return
            await self._clock.sleep(delay_s)

    def _unreachable(self, error: UpstreamError) -> End:
        address = self._config.upstream.address
        details = f"cannot reach the control plane at {address}: {error.reason}"
        return End(by=Side.CONTROL_PLANE, code=error.code, details=details)

    def _settle(self, stream: Stream, end: End) -> None:
        if end.by is Side.ENVOY:
            self._connection.counters.envoy_ended += 1
        if end.by is not Side.CONTROL_PLANE and stream.leads:
            self._connection.released()
        log.debug(
            "stream ended",
            extra={"by": end.by.value, "status": end.code.name, "reason": end.details},
        )

    async def _end_crowded_out(self, stream: Stream) -> None:
        self._connection.counters.crowded_out += 1
        details = f"more than {MAX_STREAMS} streams at once: the oldest makes way for a newer one"
        if self._crowding.begins(str(stream.process)):
            log.warning(
                "ending streams of Envoy's",
                extra={"reason": details, "pid": stream.process},
            )
        stream.end(_relay_end(grpc.StatusCode.RESOURCE_EXHAUSTED, details))
        await stream.closed.wait()

    async def _stop(self) -> None:
        self._stopping = True
        while members := self._roster.members:
            for stream in members:
                stream.end(_relay_end(grpc.StatusCode.UNAVAILABLE, "the agent is stopping"))
            for stream in members:
                await stream.closed.wait()


@asynccontextmanager
async def relaying(
    config: RelayConfig,
    interceptors: Sequence[Interceptor] = (),
    *,
    observer: ResponseObserver | None = None,
    further_roots: FurtherRoots | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Relay]:
    """Serve Envoy's ADS socket for as long as the block runs; the socket file is gone afterwards.

    further_roots: asked for each connection, given the root file's content, which roots are trusted
        besides; PEM. Not asked for plaintext and the system's roots.

    The control plane is first called when Envoy calls, so it may be away at the start.

    Raises:
        ConfigError: a configuration value that can never work.
        SocketError: the socket cannot be made.
    """
    config.check()
    types = [interceptor.type_url for interceptor in interceptors]
    if len(types) != len(set(types)):
        raise ConfigError(f"two interceptors for one type: {', '.join(sorted(types))}")
    relay = Relay(
        config,
        interceptors,
        observer=observer,
        further_roots=further_roots,
        clock=clock or SystemClock(),
    )
    async with _listening(config, relay):
        log.info("serving xDS to Envoy", extra={"socket": str(config.socket_path)})
        yield relay


@asynccontextmanager
async def _listening(config: RelayConfig, relay: Relay) -> AsyncIterator[None]:
    """A gRPC server on loopback, and an acceptor at the socket that accepts for it."""
    path, limits = config.socket_path, config.limits
    options = _server_options(config.max_message_bytes) + grpc_server.options(limits)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(relay._bounds.watched())
        try:
            listening = stack.enter_context(listening_at(path))
            acceptor = await stack.enter_async_context(
                grpc_acceptor([listening], name=f"unix:{path}", limits=limits)
            )
            relay._port = acceptor.port
            server = grpc.aio.server(
                interceptors=[grpc_server.OnlyThroughAcceptor()], options=options
            )
            server.add_generic_rpc_handlers((_handlers(relay._serve),))
            stack.push_async_callback(server.stop, _STOP_GRACE_S)
            inside = grpc_server.listen_inside(server)
        except ListenError as error:
            raise SocketError(str(error)) from error
        await server.start()
        stack.push_async_callback(relay._stop)
        stack.enter_context(acceptor.forwarding(inside))
        yield


async def _tell_end(envoy: GrpcSide, end: End) -> None:
    with suppress(grpc.aio.InternalError):  # its connection has ended in the middle of it
        await envoy.abort(end.code, end.details[:_LONGEST_DETAILS])


def _relay_end(code: grpc.StatusCode, details: str) -> End:
    return End(by=Side.RELAY, code=code, details=details)


def _server_options(max_message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 15_000),
    ]


def _handlers(
    serve: Callable[[Dialect, GrpcSide], Awaitable[None]],
) -> grpc.GenericRpcHandler[bytes, bytes]:
    """Both ADS methods; without serialisers, so that messages stay bytes."""

    def method(dialect: Dialect) -> Any:
        async def serve_stream(_: object, envoy: GrpcSide) -> None:
            await serve(dialect, envoy)

        return stream_stream(serve_stream)

    stream_stream: Any = grpc.stream_stream_rpc_method_handler  # its stubs know no coroutines
    return grpc.method_handlers_generic_handler(
        SERVICE, {dialect.method: method(dialect) for dialect in DIALECTS}
    )
