"""The relay: a gRPC server on Envoy's socket, and an upstream stream for each of Envoy's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

import grpc
import grpc.aio

from mesh_lifecycle import Clock, SystemClock, in_background
from mesh_listening import ListenError, LogLimiter, Port, grpc_acceptor, grpc_server, listening_at
from xds_proxy._config import OnDisconnect, RelayConfig
from xds_proxy._errors import ConfigError, SocketError, UpstreamError
from xds_proxy._relay_status import HeldConfiguration, RelayStatus
from xds_proxy.answers._learning import AcceptedResponses
from xds_proxy.answers._response_observer import Observation, ResponseObserver
from xds_proxy.own_types._debug_requests import DebugRequests, is_debug_type
from xds_proxy.own_types._injection import InjectedRequest, InjectedRequests
from xds_proxy.own_types._interception import Interception, Interceptor
from xds_proxy.own_types._own_types import is_for_envoy
from xds_proxy.protocol._dialect import DIALECTS, SERVICE, Dialect
from xds_proxy.quarantine._quarantine import Quarantine
from xds_proxy.rewriting._rewriting import Rewriter
from xds_proxy.saved._configuration import SavedConfiguration, saving
from xds_proxy.saved._stale_start import StaleStart
from xds_proxy.services._client_status import ClientStatusHandler
from xds_proxy.services._pass_through import PassThrough
from xds_proxy.status._acks_and_nacks import DeliveryStatus
from xds_proxy.status._counters import Counters
from xds_proxy.status._reachability import Reachability
from xds_proxy.streams._ends import End, Side
from xds_proxy.streams._leading_stream import EnvoyStreams
from xds_proxy.streams._stream import Stream
from xds_proxy.streams._surroundings import Surroundings
from xds_proxy.upstream._control_planes import ControlPlanes, control_planes
from xds_proxy.upstream._credentials import FurtherRoots, OwnCertificate
from xds_proxy.writing._memory_release import MemoryRelease
from xds_proxy.writing._message_writer import WriteBounds

log = logging.getLogger("xds_proxy")

_STOP_GRACE_S = 1.0
_LONGEST_DETAILS = 1024
_QUIET_S = 60.0


class Relay:
    """A running relay; made by `relaying`."""

    def __init__(
        self,
        config: RelayConfig,
        interceptors: Sequence[Interceptor],
        *,
        rewriters: Sequence[Rewriter],
        observer: ResponseObserver | None,
        accepted: AcceptedResponses | None,
        saved: SavedConfiguration | None,
        planes: ControlPlanes,
        clock: Clock,
    ) -> None:
        self._planes = planes
        self._config = config
        self._clock = clock
        self._counters = Counters()
        self._reachability = Reachability(planes.described, counters=self._counters, now=self._now)
        self._interception = Interception(interceptors, now=clock.now)
        self._injection = InjectedRequests()
        self._streams: EnvoyStreams[Stream] = EnvoyStreams(most=config.max_streams)
        self._delivery_status = DeliveryStatus()
        """Of the leading stream; without one, of the last."""
        self._memory = MemoryRelease(quiet_s=config.trim_memory_after_s, clock=clock)
        self._bounds = WriteBounds.of(config, clock=clock, passed=self._memory.passed)
        self._passed = PassThrough(
            config, open_call=planes.call_method, bounds=self._bounds, counters=self._counters
        )
        self._client_status = ClientStatusHandler(lambda: self.held, bounds=self._bounds)
        self._debug = DebugRequests()
        self._observation = Observation(observer)
        self._saved = saved
        self._stale_start: StaleStart | None = None
        if saved is not None and config.saved is not None:
            self._stale_start = StaleStart(
                saved,
                self._interception,
                start_after_s=config.saved.start_after_s,
                clock=clock,
            )
        self._quarantine = Quarantine(clock.now) if config.quarantine else None
        self._around = Surroundings(
            reachability=self._reachability,
            counters=self._counters,
            now=clock.now,
            interception=self._interception,
            injection=self._injection,
            debug=self._debug,
            observation=self._observation,
            bounds=self._bounds,
            rewriters=tuple(rewriters),
            accepted=saved if accepted is None else accepted,
            stale_start=self._stale_start,
            quarantine=self._quarantine,
        )
        self._crowding = LogLimiter(quiet_s=_QUIET_S, now=clock.monotonic)
        self._stopping = False
        self._port: Port | None = None

    @property
    def status(self) -> RelayStatus:
        """The status at this moment."""
        leading = self._streams.leading
        stale = None if leading is None else leading.stale
        return RelayStatus(
            connected=self._reachability.connected,
            since=self._reachability.since,
            last_error=self._reachability.last_error,
            types={**self._delivery_status.types, **self._interception.types},
            streams=len(self._streams.all),
            control_planes=self._planes.statuses,
            stale_since=None if stale is None else stale.current_at,
            stale_types=frozenset() if stale is None else stale.types,
            saved=None if self._saved is None else self._saved.status,
            quarantined=() if self._quarantine is None else self._quarantine.resources,
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

    def rewrite_again(self, type_url: str, name: str) -> None:
        """Have a resource rewritten once more, and given to each Envoy that has it.

        For a rewriter that has changed a resource and can now do better, when the control plane has
        nothing new to say. Envoy's answer to that does not reach the control plane.
        """
        for stream in self._streams.all:
            stream.rewrite_again(type_url, name)

    async def ask(
        self, type_url: str, names: Sequence[str] = (), *, timeout_s: float = 5.0
    ) -> bytes:
        """Ask the control plane for a debug type, and return its answer, a `DiscoveryResponse`.

        type_url: `istio.io/debug`, or one that begins with `istio.io/debug/`. One question is asked
        at a time, on the stream that leads.

        Raises:
            NotConnected: there is no stream to a control plane that answers.
            NoAnswer: no answer came within `timeout_s`.
            ValueError: it is no debug type.
        """
        if not is_debug_type(type_url):
            raise ValueError(f"{type_url} is no type of Istio's for debugging")

        def leading() -> tuple[Dialect, Callable[[bytes], None]] | None:
            return None if self._streams.leading is None else self._streams.leading.asks()

        return await self._debug.ask(type_url, names, leading=leading, timeout_s=timeout_s)

    @property
    def held(self) -> tuple[HeldConfiguration, ...]:
        """The resources of each Envoy, the oldest stream first; put together when it is read."""
        return tuple(
            HeldConfiguration(
                node=stream.session.node,
                process=stream.process,
                leading=stream.leading,
                resources=stream.session.held(),
                requested=stream.session.requested(),
                types=stream.session.delivery_status.types,
            )
            for stream in self._streams.all
        )

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
        return replace(
            counters,
            refused=counters.refused + self._interception.refusals,
            stale_starts=0 if self._stale_start is None else self._stale_start.starts,
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), tz=UTC)

    async def _serve(self, dialect: Dialect, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        stream = Stream(
            dialect=dialect, envoy=envoy, known=self._delivery_status, around=self._around
        )
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(stream.writing.run(), name="xds-proxy: responses to Envoy")
            try:
                end = await self._relay_among_others(stream, dialect)
                if not stream.writing.is_writing:
                    writing.cancel()
                await asyncio.wait([writing])
            finally:
                stream.writing.forget()
        if end.code is not grpc.StatusCode.OK:
            await _send_status(envoy, end)

    async def _relay_among_others(self, stream: Stream, dialect: Dialect) -> End:
        """Relay a stream, which leads until a newer one comes, and return its end."""
        crowded_out = self._streams.add(stream)
        self._delivery_status = stream.session.delivery_status
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
            self._observation.stream_ended(stream.session)
            if self._streams.remove(stream) and (successor := self._streams.leading) is not None:
                self._delivery_status = successor.session.delivery_status
                log.info("an older stream of Envoy's leads again")
            stream.closed.set()
        return end

    async def _relay_until_end(self, stream: Stream, dialect: Dialect) -> End:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(stream.run(), name="xds-proxy: stream"),
                group.create_task(self._keep_upstream(stream, dialect), name="xds-proxy: upstream"),
            ]
            end = await stream.wait_end()
            for task in tasks:
                task.cancel()
        return end

    async def _keep_upstream(self, stream: Stream, dialect: Dialect) -> None:
        """Open upstream streams, one after the other, as long as Envoy's stream lasts."""
        while True:
            try:
                async with self._planes.call(dialect) as control_plane:
                    ended = await stream.relay(control_plane)
                end = End(by=Side.CONTROL_PLANE, code=ended.code, details=ended.details)
            except UpstreamError as error:
                self._reachability.failed(error.reason, leading=stream.leading)
                end = self._unreachable(error)
            if self._config.on_disconnect is OnDisconnect.END:
                await stream.end_after_responses(end)
                return
            await self._planes.wait_to_retry()

    def _unreachable(self, error: UpstreamError) -> End:
        details = f"cannot reach the control plane at {self._planes.described}: {error.reason}"
        return End(by=Side.CONTROL_PLANE, code=error.code, details=details)

    def _record_end(self, stream: Stream, end: End) -> None:
        if end.by is Side.ENVOY:
            self._counters.envoy_ended += 1
        if end.by is not Side.CONTROL_PLANE and stream.leading:
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
    rewriters: Sequence[Rewriter] = (),
    observer: ResponseObserver | None = None,
    accepted: AcceptedResponses | None = None,
    further_roots: FurtherRoots | None = None,
    own_certificate: OwnCertificate | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Relay]:
    """Serve Envoy's ADS socket for as long as the block runs; the socket file is gone afterwards.

    rewriters: change resources on their way to Envoy, one after the other.
    observer: is told of the responses to Envoy. accepted: is given those that Envoy accepted, in
        the place of `config.saved`.
    further_roots: called for each connection with the root file's content; returns the roots that
        are trusted besides; PEM. Not called for plaintext and the system's roots.
    own_certificate: returns the workload's own certificate, which is shown to the control plane
        where the token is missing, has expired or was refused, and no other certificate is
        configured.

    The control plane is first called when Envoy calls, so it need not be reachable at the start.

    Raises:
        ConfigError: a configuration value that can never work.
        SocketError: the socket cannot be made.
    """
    config.check()
    types = [interceptor.type_url for interceptor in interceptors]
    if len(types) != len(set(types)):
        raise ConfigError(f"two interceptors for one type: {', '.join(sorted(types))}")
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        saved: SavedConfiguration | None = None
        if config.saved is not None:
            addresses = tuple(each.address for each in config.upstream.addresses)
            saved = await stack.enter_async_context(saving(config.saved, addresses, clock=clock))
        planes = await stack.enter_async_context(
            control_planes(
                config.upstream,
                max_message_bytes=config.max_message_bytes,
                further_roots=further_roots,
                own_certificate=own_certificate,
                # If Envoy's stream ends with the one to the control plane, that is left as it is.
                moves_back=config.on_disconnect is OnDisconnect.RECONNECT,
                clock=clock,
            )
        )
        relay = Relay(
            config,
            interceptors,
            rewriters=rewriters,
            observer=observer,
            accepted=accepted,
            saved=saved,
            planes=planes,
            clock=clock,
        )
        await stack.enter_async_context(_listening(config, relay))
        log.info("serving xDS to Envoy", extra={"socket": str(config.socket_path)})
        yield relay


@asynccontextmanager
async def _listening(config: RelayConfig, relay: Relay) -> AsyncIterator[None]:
    """A gRPC server on loopback, and an acceptor at the socket that accepts for it."""
    path, limits = config.socket_path, config.limits
    options = _server_options(config.max_message_bytes) + grpc_server.options(limits)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(relay._bounds.watched())
        releasing = in_background(relay._memory.run(), name="xds-proxy: memory of large messages")
        await stack.enter_async_context(releasing)
        try:
            listening = stack.enter_context(listening_at(path, mode=config.socket_mode))
            acceptor = await stack.enter_async_context(
                grpc_acceptor([listening], name=f"unix:{path}", limits=limits)
            )
            relay._port = acceptor.port
            server = grpc.aio.server(
                interceptors=[grpc_server.OnlyThroughAcceptor()], options=options
            )
            server.add_generic_rpc_handlers(
                (_handlers(relay._serve), relay._client_status, relay._passed)
            )
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
