"""One Envoy stream and its upstream stream: three loops that pass bytes on until either side ends.

Requests wait in an unbounded queue, responses are passed one at a time. A bounded request queue can
deadlock with a control plane that does not read while it writes
(https://github.com/istio/istio/issues/39209); the other way back-pressure reaches the control plane
through HTTP/2 flow control.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import grpc
import grpc.aio
from grpc.aio import EOF  # type: ignore[attr-defined]  # the stubs do not know it

from xds_proxy._connection import Connection
from xds_proxy._dialect import Dialect, Response, resource_bodies
from xds_proxy._errors import InterceptorRefused, WireError
from xds_proxy._ledger import Ledger

log = logging.getLogger("xds_proxy")

_LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
_RESPONSES_AHEAD = 1
_MAX_COMPLAINTS = 100
_FORWARDED = ("envoy.", "istio.workload.Workload")

GrpcSide = Any
"""grpc.aio's server context or client call: read() and write() of bytes, without useful types."""


class Interceptor(Protocol):
    """Consumes one resource type in Envoy's place; the relay subscribes and answers for it."""

    @property
    def type_url(self) -> str:
        """The type it takes, for example that of the name table."""

    def take(self, response: bytes) -> None:
        """Use a response; it is ACKed if this returns.

        `response` is a serialised DiscoveryResponse with at least one resource, on delta streams
        too. Called on the event loop: it must not block.

        Raises:
            InterceptorRefused: the response cannot be used; the text is sent as the NACK's message.
        """


class Side(Enum):
    """Who ended a stream."""

    ENVOY = "Envoy"
    CONTROL_PLANE = "control plane"
    RELAY = "relay"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a stream ended, and what Envoy is told."""

    by: Side
    code: grpc.StatusCode
    details: str = ""


class Stream:
    """One relayed stream: a one-time `end` that anyone may set, and the loops that watch for it."""

    def __init__(
        self,
        *,
        dialect: Dialect,
        envoy: GrpcSide,
        connection: Connection,
        ledger: Ledger,
        interceptors: Sequence[Interceptor],
    ) -> None:
        self._dialect = dialect
        self._envoy = envoy
        self._connection = connection
        self._ledger = ledger
        self._interceptors = {interceptor.type_url: interceptor for interceptor in interceptors}
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._responses: asyncio.Queue[bytes | End] = asyncio.Queue(maxsize=_RESPONSES_AHEAD)
        self._subscribed = False
        self._complained_of: set[str] = set()
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()

    def end(self, end: End) -> None:
        """End the stream; what came first counts."""
        if not self._ended.done():
            self._ended.set_result(end)

    async def wait_end(self) -> End:
        """How it ended."""
        return await asyncio.shield(self._ended)

    async def pass_on(self, control_plane: GrpcSide) -> None:
        """Relay until cancelled, which is what the owner does once `wait_end` returns."""
        self._ledger.start_stream()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_envoy(), name="xds-proxy: requests from Envoy")
            group.create_task(
                self._write_control_plane(control_plane), name="xds-proxy: requests on"
            )
            group.create_task(self._read_control_plane(control_plane), name="xds-proxy: responses")
            group.create_task(self._write_envoy(), name="xds-proxy: responses to Envoy")

    async def _read_envoy(self) -> None:
        while True:
            request = await self._envoy.read()
            if request is EOF:
                self.end(End(by=Side.ENVOY, code=grpc.StatusCode.OK))
                return
            try:
                type_url = self._note_request(request)
            except WireError as error:
                self.end(_malformed("Envoy's request", error))
                return
            self._connection.counters.requests += 1
            self._requests.put_nowait(request)
            if type_url == _LISTENER and not self._subscribed:
                self._subscribe()

    async def _write_control_plane(self, control_plane: GrpcSide) -> None:
        while True:
            request = await self._requests.get()
            try:
                await control_plane.write(request)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the call has ended; the reading loop learns how

    async def _read_control_plane(self, control_plane: GrpcSide) -> None:
        answered = False
        while (response := await _next(control_plane)) is not None:
            if not answered:
                answered = True
                self._connection.answered()
            try:
                forward = self._note_response(response)
            except WireError as error:
                log.error(
                    "the control plane sent a malformed response", extra={"reason": str(error)}
                )
                self.end(_malformed("the control plane's response", error))
                return
            if forward:
                await self._responses.put(response)
        code, details = await control_plane.code(), await control_plane.details() or ""
        if answered or code is grpc.StatusCode.OK:
            self._connection.lost(code, details)
        else:
            self._connection.failed(_refusal(code, details))
        await self._responses.put(End(by=Side.CONTROL_PLANE, code=code, details=details))

    async def _write_envoy(self) -> None:
        while True:
            response = await self._responses.get()
            if isinstance(response, End):
                self.end(response)
                return
            try:
                await self._envoy.write(response)
            except grpc.aio.InternalError:
                self.end(End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))
                return

    def _note_response(self, response: bytes) -> bool:
        """Enter a response into the ledger; whether it goes to Envoy."""
        peeked = self._dialect.read_response(response)
        type_url, counters = peeked.type_url, self._connection.counters
        if (interceptor := self._interceptors.get(type_url)) is not None:
            counters.responses += 1
            self._intercept(interceptor, response, peeked)
            return False
        if type_url.rpartition("/")[2].startswith(_FORWARDED):
            counters.responses += 1
            self._ledger.sent(
                type_url=type_url,
                version=peeked.version,
                nonce=peeked.nonce,
                at=self._connection.now(),
            )
            return True
        counters.dropped += 1
        if type_url not in self._complained_of and len(self._complained_of) < _MAX_COMPLAINTS:
            self._complained_of.add(type_url)
            log.error(
                "dropped a response of a type that Envoy does not know",
                extra={"type_url": type_url[:256], "nonce": peeked.nonce[:256]},
            )
        return False

    def _note_request(self, request: bytes) -> str:
        peeked = self._dialect.read_request(request)
        refused = self._ledger.answered(
            type_url=peeked.type_url,
            nonce=peeked.nonce,
            error=peeked.error,
            at=self._connection.now(),
        )
        if refused is not None:
            log.warning(
                "Envoy refused a configuration and keeps the last good one",
                extra={"type_url": peeked.type_url, "version": refused, "reason": peeked.error},
            )
        return peeked.type_url

    def _subscribe(self) -> None:
        """The agent's own subscriptions come right after Envoy's first listener request."""
        self._subscribed = True
        for type_url in self._interceptors:
            self._requests.put_nowait(self._dialect.write_request(type_url=type_url))

    def _intercept(self, interceptor: Interceptor, response: bytes, peeked: Response) -> None:
        type_url, now = peeked.type_url, self._connection.now()
        self._ledger.sent(type_url=type_url, version=peeked.version, nonce=peeked.nonce, at=now)
        error = _taken(interceptor, self._dialect.state_of_the_world(response))
        self._ledger.answered(type_url=type_url, nonce=peeked.nonce, error=error, at=now)
        if error is not None:
            log.warning(
                "the agent refused a configuration and keeps the last good one",
                extra={"type_url": type_url, "version": peeked.version, "reason": error},
            )
        self._requests.put_nowait(
            self._dialect.write_request(
                type_url=type_url,
                version=peeked.version if error is None else self._ledger.in_use(type_url),
                nonce=peeked.nonce,
                error=error,
            )
        )


async def _next(control_plane: GrpcSide) -> bytes | None:
    """The next response, None once the call has ended; it then knows its status."""
    try:
        response = await control_plane.read()
    except grpc.aio.AioRpcError:
        return None
    return None if response is EOF else bytes(response)


def _taken(interceptor: Interceptor, response: bytes) -> str | None:
    """Why the interceptor refused the response, None if it took it."""
    if not resource_bodies(response):
        return (
            None  # nothing in it: what was taken before stays, and the control plane gets its ACK
        )
    try:
        interceptor.take(response)
    except InterceptorRefused as error:
        return str(error) or "refused"
    except Exception as error:
        log.exception("an interceptor failed", extra={"type_url": interceptor.type_url})
        return f"internal error ({type(error).__name__})"
    return None


def _refusal(code: grpc.StatusCode, details: str) -> str:
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            said = "unauthenticated: it does not accept the token"
        case grpc.StatusCode.PERMISSION_DENIED:
            said = "permission denied: it does not serve this workload's identity"
        case grpc.StatusCode.UNIMPLEMENTED:
            said = "it does not serve this kind of xDS stream"
        case _:
            said = f"it ended the stream before its first answer ({code.name})"
    return f"{said}: {details}" if details else said


def _malformed(what: str, error: WireError) -> End:
    return End(
        by=Side.RELAY, code=grpc.StatusCode.INTERNAL, details=f"{what} is malformed: {error}"
    )
