"""One stream of Envoy and its upstream stream: tasks that relay messages until either side ends.

Requests wait in a queue, responses are relayed one at a time. A queue that made Envoy wait could
deadlock with a control plane that does not read while it writes
(https://github.com/istio/istio/issues/39209), so the stream ends when the queue grows too long. In
the other direction, back-pressure reaches the control plane through HTTP/2 flow control.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

import grpc
import grpc.aio

from mesh_listening import accepted_peer, disconnect
from xds_proxy._errors import WireError
from xds_proxy.protocol._dialect import Dialect, Request, Response
from xds_proxy.status._acks_and_nacks import DeliveryStatus
from xds_proxy.status._counters import Counters
from xds_proxy.status._reachability import Reachability
from xds_proxy.streams._ends import End, Side, malformed, refusal
from xds_proxy.streams._injection import InjectedRequest, InjectedRequests
from xds_proxy.streams._interception import Interception
from xds_proxy.streams._response_observer import Observation
from xds_proxy.streams._writing import MessageWriter, WriteBounds
from xds_proxy.upstream._call import ControlPlaneCall

log = logging.getLogger("xds_proxy")

_LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
_RESPONSES_AHEAD = 1
_MAX_DROPPED_TYPES = 100
_FORWARDED = ("envoy.", "istio.workload.Workload")


class Stream:
    """One relayed stream; it runs until the first call of `end`, from whichever side.

    Of several streams at a time one leads (see `_leading_stream`).
    """

    def __init__(
        self,
        *,
        dialect: Dialect,
        envoy: grpc.aio.ServicerContext[bytes, bytes],
        reachability: Reachability,
        counters: Counters,
        now: Callable[[], datetime],
        delivery_status: DeliveryStatus,
        interception: Interception,
        injection: InjectedRequests,
        observation: Observation,
        bounds: WriteBounds,
    ) -> None:
        self.delivery_status = delivery_status
        self._leading = False
        self._dialect = dialect
        self._envoy = envoy
        self._reachability = reachability
        self._counters = counters
        self._now = now
        self._interception = interception
        self._injection = injection
        self._injected: dict[str, InjectedRequest] = {}
        self._observation = observation
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._queued_bytes = 0
        self._max_queued_bytes = bounds.max_queued_bytes
        self._to_control_plane = MessageWriter(bounds.to_control_plane, self._control_plane_overdue)
        self._to_envoy = MessageWriter(bounds.to_envoys, self._envoy_overdue)
        self._responses: asyncio.Queue[bytes | End] = asyncio.Queue(maxsize=_RESPONSES_AHEAD)
        self._has_answer = False
        self._listeners_requested = False
        self._subscribed = False
        self._unanswered: dict[str, tuple[bytes, Response]] = {}
        """While another stream leads: the newest response of each intercepted type."""
        self._dropped_types: set[str] = set()
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()

    @property
    def process(self) -> int | None:
        """The process id of the Envoy, from its socket's credentials; None if it is unknown."""
        known = accepted_peer(self._envoy.peer())
        return known.credentials.pid if known is not None and known.credentials else None

    def start_leading(self) -> None:
        """From now on, the relay's status is this stream's, and the agent's types come from it.

        Responses of these types that came while another stream led are answered now.
        """
        self._leading = True
        if self._has_answer and not self._ended.done():
            self._reachability.answered()
        else:
            self._reachability.no_answer_yet()
        self._subscribe()
        unanswered, self._unanswered = self._unanswered, {}
        for response, peeked in unanswered.values():
            self._intercept(response, peeked)

    def stop_leading(self) -> None:
        """Another stream leads from now on."""
        self._leading = False

    def inject(self) -> None:
        """Send the agent's own requests that this stream has not sent, if it leads.

        Before Envoy's first request for listeners they wait for it: no request of the agent's own
        goes before Envoy has said which node it is.
        """
        if self._leading and self._listeners_requested:
            for request in self._injection.to_send(self._dialect, self._injected):
                self._queue(request)

    def end(self, end: End) -> None:
        """End the stream; of several ends the first one counts."""
        if not self._ended.done():
            self._ended.set_result(end)

    async def wait_end(self) -> End:
        """Wait for the end of the stream and return it."""
        return await asyncio.shield(self._ended)

    async def relay(self, control_plane: ControlPlaneCall) -> None:
        """Relay messages until cancelled; the caller does that when `wait_end` returns."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_envoy(), name="xds-proxy: requests from Envoy")
                group.create_task(
                    self._write_control_plane(control_plane), name="xds-proxy: requests on"
                )
                group.create_task(
                    self._read_control_plane(control_plane), name="xds-proxy: responses"
                )
        finally:
            self._to_control_plane.forget()

    async def write_envoy(self) -> None:
        """Write responses until the stream has ended, and then until a pending one is taken.

        gRPC can't end a call while a response is pending: it would send the headers again. An Envoy
        that does not read loses its connection in time, and gRPC then cancels this coroutine.
        """
        while not self._ended.done():
            response = await self._responses.get()
            if isinstance(response, End):
                self.end(response)
                return
            if not self._ended.done():
                try:
                    await self._to_envoy.write(self._envoy, response)
                except grpc.aio.InternalError:
                    self.end(End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))

    @property
    def is_writing(self) -> bool:
        """Whether a response to Envoy is pending."""
        return self._to_envoy.is_writing

    def forget(self) -> None:
        """The call is over, and its pending response with it."""
        self._to_envoy.forget()

    async def _read_envoy(self) -> None:
        while True:
            request = await _next(self._envoy)
            if request is None:
                self.end(End(by=Side.ENVOY, code=grpc.StatusCode.OK))
                return
            try:
                peeked = self._dialect.read_request(request)
            except WireError as error:
                self.end(malformed("Envoy's request", error))
                return
            self._note_request(peeked)
            self._counters.requests += 1
            self._queue(request)
            if peeked.type_url == _LISTENER:
                self._listeners_requested = True
                self._subscribe()

    async def _write_control_plane(self, control_plane: ControlPlaneCall) -> None:
        while True:
            request = await self._requests.get()
            self._queued_bytes -= len(request)
            try:
                await self._to_control_plane.write(control_plane, request)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the call has ended; the reading loop learns how

    async def _read_control_plane(self, control_plane: ControlPlaneCall) -> None:
        while (response := await _next_response(control_plane)) is not None:
            if not self._has_answer:
                self._has_answer = True
                if self._leading:
                    self._reachability.answered()
            try:
                forward = self._note_response(response)
            except WireError as error:
                self._end_for_malformed_response(error)
                return
            if forward:
                await self._responses.put(response)
        code, details = await control_plane.code(), await control_plane.details() or ""
        if self._has_answer or code is grpc.StatusCode.OK:
            self._reachability.ended(code, details, leading=self._leading)
        else:
            reason = refusal(code, details, shown=control_plane.shown)
            self._reachability.failed(reason, leading=self._leading)
        await self._responses.put(End(by=Side.CONTROL_PLANE, code=code, details=details))

    def _note_response(self, response: bytes) -> bool:
        """Record a response. Returns whether it is forwarded to Envoy. Raises WireError."""
        peeked = self._dialect.read_response(response)
        type_url, counters = peeked.type_url, self._counters
        if self._interception.intercepts(type_url):
            counters.responses += 1
            self._intercept(response, peeked)
            return False
        if type_url in self._injection:
            counters.responses += 1  # an answer to a report needs none
            return False
        if is_for_envoy(type_url):
            counters.responses += 1
            self.delivery_status.response_sent(
                type_url=type_url,
                version=peeked.version,
                nonce=peeked.nonce,
                at=self._now(),
                control_plane=peeked.control_plane,
            )
            self._observation.response_arrived(self, type_url, peeked.nonce)
            return True
        counters.dropped += 1
        if type_url not in self._dropped_types and len(self._dropped_types) < _MAX_DROPPED_TYPES:
            self._dropped_types.add(type_url)
            log.error(
                "dropped a response of a type that Envoy does not know",
                extra={"type_url": type_url[:256], "nonce": peeked.nonce[:256]},
            )
        return False

    def _note_request(self, peeked: Request) -> None:
        type_url, error = peeked.type_url, peeked.error
        self.delivery_status.type_requested(type_url, names_versions=peeked.names_versions)
        answered = self.delivery_status.response_answered(
            type_url=type_url, nonce=peeked.nonce, error=error, at=self._now()
        )
        if answered is not None and error is not None:
            self._counters.refused += 1
            log.warning(
                "Envoy refused a configuration and keeps the last good one",
                extra={"type_url": type_url, "version": answered, "reason": error},
            )
        self._observation.request_arrived(self, type_url, peeked.nonce)

    def _subscribe(self) -> None:
        """Send the agent's own requests, right after Envoy's first request for listeners."""
        if self._leading and self._listeners_requested and not self._subscribed:
            self._subscribed = True
            for request in self._interception.subscriptions(self._dialect):
                self._queue(request)
        self.inject()

    def _intercept(self, response: bytes, peeked: Response) -> None:
        """Give a response to its interceptor and answer it, now or when this stream leads."""
        if not self._leading:
            self._unanswered[peeked.type_url] = response, peeked
            return
        try:
            answer = self._interception.answer(self._dialect, response, peeked)
        except WireError as error:
            self._end_for_malformed_response(error)
        else:
            self._queue(answer)

    def _queue(self, request: bytes) -> None:
        """Queue a request to the control plane."""
        self._queued_bytes += len(request)
        self._requests.put_nowait(request)
        if self._queued_bytes > self._max_queued_bytes:
            self._control_plane_does_not_read(
                f"more than {self._max_queued_bytes} bytes of requests wait for it"
            )

    def _control_plane_overdue(self, waited_s: float, size: int, reason: str) -> None:
        log.debug(
            "a request was not taken",
            extra={"waited_s": round(waited_s, 1), "bytes": size, "reason": reason},
        )
        self._control_plane_does_not_read(f"it has not taken a request for {waited_s:.0f} s")

    def _control_plane_does_not_read(self, reason: str) -> None:
        if self._ended.done():
            return
        self._reachability.not_reading(reason, leading=self._leading)
        details = f"the control plane does not read: {reason}"
        self.end(End(by=Side.CONTROL_PLANE, code=grpc.StatusCode.UNAVAILABLE, details=details))

    def _envoy_overdue(self, waited_s: float, size: int, reason: str) -> None:
        """End the connection; a status could not be sent behind the response that is not read."""
        self._counters.envoy_not_reading += 1
        log.warning(
            "Envoy's connection is ended, it does not read",
            extra={
                "pid": self.process,
                "waited_s": round(waited_s, 1),
                "bytes": size,
                "reason": reason,
            },
        )
        details = f"a response of {size} bytes was not read for {waited_s:.0f} s: {reason}"
        self.end(End(by=Side.RELAY, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=details))
        disconnect(self._envoy.peer())

    def _end_for_malformed_response(self, error: WireError) -> None:
        log.error("the control plane sent a malformed response", extra={"reason": str(error)})
        self.end(malformed("the control plane's response", error))


def is_for_envoy(type_url: str) -> bool:
    """Say whether responses of this type are relayed to Envoy."""
    return type_url.rpartition("/")[2].startswith(_FORWARDED)


class _Readable(Protocol):
    def read(self) -> Awaitable[object]: ...


async def _next(side: _Readable) -> bytes | None:
    """Return the next message, None at the end (gRPC then returns an object of its own)."""
    message = await side.read()
    return message if isinstance(message, bytes) else None


async def _next_response(control_plane: ControlPlaneCall) -> bytes | None:
    """Return the next response, None once the call has ended; it then knows its status."""
    try:
        return await _next(control_plane)
    except grpc.aio.AioRpcError:
        return None
