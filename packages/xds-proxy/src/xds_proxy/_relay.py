"""The relay: a gRPC server on Envoy's socket that opens one upstream stream for each of Envoy's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import grpc
import grpc.aio

from mesh_lifecycle import Backoff, Clock, SystemClock
from mesh_listening import ListenError, LogLimiter, Port, grpc_acceptor, grpc_server, listening_at
from xds_proxy._config import RelayConfig
from xds_proxy._errors import ConfigError, SocketError, UpstreamError
from xds_proxy.protocol._dialect import DIALECTS, SERVICE, Dialect
from xds_proxy.status._acks_and_nacks import DeliveryStatus, TypeStatus
from xds_proxy.status._counters import Counters
from xds_proxy.status._reachability import Reachability
from xds_proxy.streams._ends import End, Side
from xds_proxy.streams._injection import InjectedRequest, InjectedRequests
from xds_proxy.streams._interception import Interception, Interceptor
from xds_proxy.streams._leading_stream import EnvoyStreams
from xds_proxy.streams._response_observer import Observation, ResponseObserver
from xds_proxy.streams._stream import Stream, is_for_envoy
from xds_proxy.streams._writing import WriteBounds
from xds_proxy.upstream._credentials import FurtherRoots
from xds_proxy.upstream._dialling import dialled

log = logging.getLogger("xds_proxy")

_STOP_GRACE_S = 1.0
_AGAIN = Backoff(initial_s=0.1, maximum_s=1.0, multiplier=1.5, jitter=0.2)
_LONGEST_DETAILS = 1024
_QUIET_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStatus:
    """One moment of the relay.

    connected: the control plane has answered on the leading stream.
    since: when `connected` changed to what it is (UTC).
    last_error: why it is not connected; None while it is, and before the first attempt.
    types: the delivery status of each type on the leading stream, and of the agent's own types, by
        type URL.
    streams: the number of streams that Envoys have open; two during a hot restart.
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
        self._counters = Counters()
        self._reachability = Reachability(
            config.upstream.address, counters=self._counters, now=self._now
        )
        self._interception = Interception(interceptors, now=self._now)
        self._injection = InjectedRequests()
        self._streams: EnvoyStreams[Stream] = EnvoyStreams(most=config.max_streams)
        self._delivery_status = DeliveryStatus()
        """Of the leading stream; without one, of the last."""
        self._bounds = WriteBounds.of(config, clock=clock)
        self._crowding = LogLimiter(quiet_s=_QUIET_S, now=clock.monotonic)
        self._stopping = False
        self._port: Port | None = None

    @property
    def status(self) -> RelayStatus:
        """The status at this moment."""
        return RelayStatus(
            connected=self._reachability.connected,
            since=self._reachability.since,
            last_error=self._reachability.last_error,
            types={**self._delivery_status.types, **self._interception.types},
            streams=len(self._streams.all),
        )

    def inject(self, type_url: str, *, error: str | None = None) -> None:
        """Send a request of the agent's own: no subscription, but a report, such as of health.

        error: the request's `error_detail`; None for a request that has none.

        The newest request of each type is kept and sent on each stream to the control plane, right
        after Envoy's first request for listeners; a later one follows on the stream that leads.
        Responses of these types do not reach Envoy. Raises ValueError for a type of Envoy's own.
        """
        if self._interception.intercepts(type_url) or is_for_envoy(type_url):
            raise ValueError(f"{type_url} is a type that Envoy or an interceptor subscribes to")
        self._injection.put(InjectedRequest(type_url=type_url, error=error))
        if (leading := self._streams.leading) is not None:
            leading.inject()

    @property
    def port(self) -> Port:
        """The port that counts the connections to Envoy's socket."""
        if self._port is None:
            raise RuntimeError("a relay has a port only after it began to serve")
        return self._port

    @property
    def pending_write_bytes(self) -> int:
        """The bytes of messages to Envoys and to the control plane that are not yet read."""
        return self._bounds.to_envoys.bytes + self._bounds.to_control_plane.bytes

    @property
    def counters(self) -> Counters:
        """A copy of the totals since the relay started."""
        counters = self._counters
        return replace(counters, refused=counters.refused + self._interception.refusals)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), tz=UTC)

    async def _serve(self, dialect: Dialect, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        stream = Stream(
            dialect=dialect,
            envoy=envoy,
            reachability=self._reachability,
            counters=self._counters,
            now=self._now,
            delivery_status=DeliveryStatus(self._delivery_status.types),
            interception=self._interception,
            injection=self._injection,
            observation=self._observation,
            bounds=self._bounds,
        )
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(stream.write_envoy(), name="xds-proxy: responses to Envoy")
            try:
                end = await self._relay_among_others(stream, dialect)
                if not stream.is_writing:
                    writing.cancel()
                await asyncio.wait([writing])
            finally:
                stream.forget()
        if end.code is not grpc.StatusCode.OK:
            await _send_status(envoy, end)

    async def _relay_among_others(self, stream: Stream, dialect: Dialect) -> End:
        """Relay a stream, which leads until a newer one comes, and return its end."""
        crowded_out = self._streams.add(stream)
        self._delivery_status = stream.delivery_status
        try:
            if crowded_out is not None:
                await self._end_crowded_out(crowded_out)
            if self._stopping:
                stream.end(_relay_end(grpc.StatusCode.UNAVAILABLE, "the agent is stopping"))
            end = await self._relay_until_end(stream, dialect)
            self._record_end(stream, end)
        except asyncio.CancelledError:
            self._record_end(stream, End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))
            raise
        finally:
            self._observation.stream_ended(stream)
            if self._streams.remove(stream) and (successor := self._streams.leading) is not None:
                self._delivery_status = successor.delivery_status
                log.info("an older stream of Envoy's leads again")
            stream.closed.set()
        return end

    async def _relay_until_end(self, stream: Stream, dialect: Dialect) -> End:
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
                    await stream.relay(control_plane)
            except UpstreamError as error:
                self._reachability.failed(error.reason, leading=self._leads(stream))
                if self._clock.monotonic() + delay_s > give_up_at:
                    stream.end(self._unreachable(error))
                    return
            await self._clock.sleep(delay_s)

    def _unreachable(self, error: UpstreamError) -> End:
        address = self._config.upstream.address
        details = f"cannot reach the control plane at {address}: {error.reason}"
        return End(by=Side.CONTROL_PLANE, code=error.code, details=details)

    def _leads(self, stream: Stream) -> bool:
        return self._streams.leading is stream

    def _record_end(self, stream: Stream, end: End) -> None:
        if end.by is Side.ENVOY:
            self._counters.envoy_ended += 1
        if end.by is not Side.CONTROL_PLANE and self._leads(stream):
            self._reachability.no_answer_yet()
        log.debug(
            "stream ended",
            extra={"by": end.by.value, "status": end.code.name, "reason": end.details},
        )

    async def _end_crowded_out(self, stream: Stream) -> None:
        self._counters.crowded_out += 1
        most = self._config.max_streams
        details = f"more than {most} streams at once: the oldest makes way for a newer one"
        if self._crowding.begins(str(stream.process)):
            log.warning(
                "ending streams of Envoy's",
                extra={"reason": details, "pid": stream.process},
            )
        stream.end(_relay_end(grpc.StatusCode.RESOURCE_EXHAUSTED, details))
        await stream.closed.wait()

    async def _stop(self) -> None:
        self._stopping = True
        while streams := self._streams.all:
            for stream in streams:
                stream.end(_relay_end(grpc.StatusCode.UNAVAILABLE, "the agent is stopping"))
            for stream in streams:
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

    further_roots: called for each connection with the root file's content; returns the roots that
        are trusted besides; PEM. Not called for plaintext and the system's roots.

    The control plane is first called when Envoy calls, so it need not be reachable at the start.

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
            listening = stack.enter_context(listening_at(path, mode=config.socket_mode))
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


async def _send_status(envoy: grpc.aio.ServicerContext[bytes, bytes], end: End) -> None:
    with suppress(grpc.aio.InternalError):  # Envoy's connection ended meanwhile
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
    serve: Callable[[Dialect, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[None]],
) -> grpc.GenericRpcHandler[bytes, bytes]:
    """Handle both ADS methods, without serialisers, so that messages stay bytes."""

    def method(dialect: Dialect) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def serve_stream(_: object, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            await serve(dialect, envoy)

        return grpc.stream_stream_rpc_method_handler(serve_stream)

    return grpc.method_handlers_generic_handler(
        SERVICE, {dialect.method: method(dialect) for dialect in DIALECTS}
    )
