"""The relay as a program runs it and sees it: its parts put together, its status, its requests."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from msgspec.structs import replace

from mesh_lifecycle import Clock, RepeatLog, SystemClock, in_background
from mesh_listening import Port
from xds_proxy._config import OnDisconnect, RelayConfig
from xds_proxy._errors import ConfigError
from xds_proxy._relay_status import HeldConfiguration, RelayStatus, held_by
from xds_proxy._socket import serving_at_socket
from xds_proxy.answers._learning import AcceptedResponses
from xds_proxy.answers._response_observer import Observation, ResponseObserver
from xds_proxy.own_types._debug_requests import DebugRequests, is_debug_type
from xds_proxy.own_types._injection import InjectedRequest, InjectedRequests
from xds_proxy.own_types._interception import Interception, Interceptor
from xds_proxy.own_types._own_types import is_for_envoy
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.quarantine._quarantine import Quarantine
from xds_proxy.rewriting._rewriting import Rewriter
from xds_proxy.saved._configuration import SavedConfiguration, saving
from xds_proxy.saved._stale_start import StaleStart
from xds_proxy.services._client_status import ClientStatusHandler
from xds_proxy.services._pass_through import PassThrough
from xds_proxy.status._counters import Counters
from xds_proxy.status._reachability import Reachability
from xds_proxy.streams._stream_serving import StreamServing
from xds_proxy.streams._surroundings import Surroundings
from xds_proxy.upstream._control_planes import ControlPlanes, control_planes
from xds_proxy.upstream._credentials import FurtherRoots, OwnCertificate
from xds_proxy.writing._memory_release import MemoryRelease
from xds_proxy.writing._message_writer import WriteBounds

log = logging.getLogger("xds_proxy")


class Relay:
    """A running relay; created by `relaying`."""

    def __init__(
        self,
        around: Surroundings,
        streams: StreamServing,
        *,
        planes: ControlPlanes,
        saved: SavedConfiguration | None,
        port: Port,
    ) -> None:
        self._around = around
        self._streams = streams
        self._planes = planes
        self._saved = saved
        self._port = port

    @property
    def status(self) -> RelayStatus:
        """The status at this moment."""
        around, leading = self._around, self._streams.leading
        stale = None if leading is None else leading.stale
        return RelayStatus(
            connected=around.reachability.connected,
            since=around.reachability.since,
            last_error=around.reachability.last_error,
            types={**self._streams.delivery_status.types, **around.interception.types},
            streams=len(self._streams.all),
            control_planes=self._planes.statuses,
            stale_since=None if stale is None else stale.current_at,
            stale_types=frozenset() if stale is None else stale.types,
            saved=None if self._saved is None else self._saved.status,
            quarantined=() if around.quarantine is None else around.quarantine.resources,
        )

    def inject(self, type_url: str, *, error: str | None = None) -> None:
        """Send a request of the agent's own: no subscription, but a report, such as of health.

        error: the request's `error_detail`; None for a request that has none.

        The newest request of each type is kept and sent on each stream to the control plane, right
        after Envoy's first request for listeners; a later one follows on the stream that leads.
        Responses of these types do not reach Envoy. Raises ValueError for a type of Envoy's own.
        """
        if self._around.interception.intercepts(type_url) or is_for_envoy(type_url):
            raise ValueError(f"{type_url} is a type that Envoy or an interceptor subscribes to")
        self._around.injection.put(InjectedRequest(type_url=type_url, error=error))
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

        return await self._around.debug.ask(type_url, names, leading=leading, timeout_s=timeout_s)

    @property
    def held(self) -> tuple[HeldConfiguration, ...]:
        """The resources of each Envoy, the oldest stream first; put together when it is read."""
        return held_by(self._streams.all)

    @property
    def port(self) -> Port:
        """The port that counts the connections to Envoy's socket."""
        return self._port

    @property
    def pending_write_bytes(self) -> int:
        """The bytes of messages to Envoys and to the control plane that are not yet read."""
        bounds = self._around.bounds
        return bounds.to_envoys.bytes + bounds.to_control_plane.bytes

    @property
    def counters(self) -> Counters:
        """A copy of the totals since the relay started."""
        counters, stale_start = self._around.counters, self._around.stale_start
        return replace(
            counters,
            refused=counters.refused + self._around.interception.refusals,
            stale_starts=0 if stale_start is None else stale_start.starts,
        )


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
    listening: socket.socket | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Relay]:
    """Serve Envoy's ADS socket for as long as the block runs; the socket file is gone afterwards.

    rewriters: change resources on their way to Envoy, one after the other.
    observer: observes the responses to Envoy. accepted: is given those that Envoy accepted, in
        the place of `config.saved`.
    further_roots: called for each connection with the root file's content; returns the roots that
        are trusted besides; PEM. Not called for plaintext and the system's roots.
    own_certificate: returns the workload's own certificate, which is shown to the control plane
        where the token is missing, has expired or was refused, and no other certificate is
        configured.
    listening: a socket that listens at `config.socket_path` already, so that an Envoy can have
        connected; the caller closes it, and removes the file.

    The control plane is first called when Envoy calls, so it need not be reachable at the start.

    Raises:
        ConfigError: a configuration value that can never work.
        SocketError: the socket cannot be created.
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
        memory = MemoryRelease(quiet_s=config.trim_memory_after_s, clock=clock)
        bounds = WriteBounds.from_config(config, clock=clock, on_message=memory.on_message)
        around = _surroundings(
            config,
            planes,
            interceptors=interceptors,
            rewriters=rewriters,
            observer=observer,
            accepted=saved if accepted is None else accepted,
            saved=saved,
            bounds=bounds,
            clock=clock,
        )
        streams = StreamServing(
            around,
            planes=planes,
            on_disconnect=config.on_disconnect,
            max_streams=config.max_streams,
            clock=clock,
        )
        handlers = (
            streams.handler,
            ClientStatusHandler(lambda: held_by(streams.all), bounds=bounds),
            PassThrough(
                config, open_call=planes.call_method, bounds=bounds, counters=around.counters
            ),
        )
        await stack.enter_async_context(bounds.watching())
        releasing = in_background(memory.run(), name="xds-proxy: memory of large messages")
        await stack.enter_async_context(releasing)
        serving = serving_at_socket(config, handlers, stop=streams.stop, listening=listening)
        port = await stack.enter_async_context(serving)
        log.info("serving xDS to Envoy", extra={"socket": str(config.socket_path)})
        yield Relay(around, streams, planes=planes, saved=saved, port=port)


def _surroundings(
    config: RelayConfig,
    planes: ControlPlanes,
    *,
    interceptors: Sequence[Interceptor],
    rewriters: Sequence[Rewriter],
    observer: ResponseObserver | None,
    accepted: AcceptedResponses | None,
    saved: SavedConfiguration | None,
    bounds: WriteBounds,
    clock: Clock,
) -> Surroundings:
    """Return the parts that all streams share, before any of them."""
    counters = Counters()
    interception = Interception(interceptors, clock=clock)
    stale_start: StaleStart | None = None
    if saved is not None and config.saved is not None:
        stale_start = StaleStart(
            saved, interception, start_after_s=config.saved.start_after_s, clock=clock
        )
    return Surroundings(
        reachability=Reachability(
            planes.description,
            counters=counters,
            now=lambda: datetime.fromtimestamp(clock.now(), tz=UTC),
        ),
        counters=counters,
        now=clock.now,
        interception=interception,
        injection=InjectedRequests(),
        debug=DebugRequests(),
        observation=Observation(observer),
        bounds=bounds,
        rewriters=tuple(rewriters),
        accepted=accepted,
        stale_start=stale_start,
        quarantine=Quarantine(clock.now) if config.quarantine else None,
        refusals=RepeatLog(
            log, "Envoy refused a configuration and keeps the last good one", now=clock.monotonic
        ),
    )
