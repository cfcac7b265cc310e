"""One Envoy stream and its upstream stream: three loops that pass bytes on until either side ends.

Requests wait in a queue, responses are passed one at a time. A queue that makes Envoy wait can
deadlock with a control plane that does not read while it writes
(https://github.com/istio/istio/issues/39209), so one that grows too long ends the stream. The other
way back-pressure reaches the control plane through HTTP/2 flow control.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import Enum
from typing import Any

import grpc
import grpc.aio
from grpc.aio import EOF  # type: ignore[attr-defined]  # the stubs do not know it

from mesh_listening import accepted_peer, disconnect
from xds_proxy._errors import WireError
from xds_proxy.protocol._dialect import Dialect, Request, Response
from xds_proxy.status._delivery_status import Ledger
from xds_proxy.status._reachability import Connection
from xds_proxy.streams._interception import Interception
from xds_proxy.streams._observation import Observation
from xds_proxy.streams._writing import Bounds, Delivery

log = logging.getLogger("xds_proxy")

_LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
_RESPONSES_AHEAD = 1
_MAX_COMPLAINTS = 100
_FORWARDED = ("envoy.", "istio.workload.Workload")

GrpcSide = Any
"""grpc.aio's server context or client call: read() and write() of bytes, without useful types."""


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
    """One relayed stream: a one-time `end` that anyone may set, and the loops that watch for it.

    Of several that are alive at once, one leads (see `_roster`).
    """

    def __init__(
        self,
        *,
        dialect: Dialect,
        envoy: GrpcSide,
        connection: Connection,
        ledger: Ledger,
        interception: Interception,
        observation: Observation,
        bounds: Bounds,
    ) -> None:
        self.ledger = ledger
        self.leads = False
        self._dialect = dialect
        self._envoy = envoy
        self._connection = connection
        self._interception = interception
        self._observation = observation
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._queued_bytes = 0
        self._max_queued_bytes = bounds.max_queued_bytes
        self._to_control_plane = Delivery(bounds.to_control_plane, self._control_plane_overdue)
        self._to_envoy = Delivery(bounds.to_envoys, self._envoy_overdue)
        self._responses: asyncio.Queue[bytes | End] = asyncio.Queue(maxsize=_RESPONSES_AHEAD)
        self._answered = False
        self._listeners_asked = False
        self._subscribed = False
        self._unread: dict[str, tuple[bytes, Response]] = {}
        self._complained_of: set[str] = set()
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()

    @property
    def process(self) -> int | None:
        """The process that Envoy is, by the kernel's word."""
        known = accepted_peer(self._envoy.peer())
        return known.credentials.pid if known is not None and known.credentials else None

    def lead(self) -> None:
        """Speak for the relay: its connection is the relay's, and the agent's types come by it.

        What came of them while another stream led has waited here unanswered.
        """
        self.leads = True
        if self._answered and not self._ended.done():
            self._connection.answered()
        else:
            self._connection.released()
        self._subscribe()
        unread, self._unread = self._unread, {}
        for response, peeked in unread.values():
            self._intercept(response, peeked)

    def follow(self) -> None:
        """Let another stream lead."""
        self.leads = False

    def end(self, end: End) -> None:
        """End the stream; what came first counts."""
        if not self._ended.done():
            self._ended.set_result(end)

    async def wait_end(self) -> End:
        """How it ended."""
        return await asyncio.shield(self._ended)

    async def pass_on(self, control_plane: GrpcSide) -> None:
        """Relay until cancelled, which is what the owner does once `wait_end` returns."""
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
        """Write responses until the stream has ended; one that is on its way then is waited for.

        gRPC can't end a call that has one on its way: it would send the headers again. Who does not
        take it is found in time, and its connection ended, with which gRPC cancels this.
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
        """Whether a response is on its way to Envoy."""
        return self._to_envoy.is_under_way

    def forget(self) -> None:
        """The call is over, and with it what was on its way."""
        self._to_envoy.forget()

    async def _read_envoy(self) -> None:
        while True:
            request = await self._envoy.read()
            if request is EOF:
                self.end(End(by=Side.ENVOY, code=grpc.StatusCode.OK))
                return
            try:
                peeked = self._dialect.read_request(request)
            except WireError as error:
                self.end(_malformed("Envoy's request", error))
                return
            self._note_request(peeked)
            self._connection.counters.requests += 1
            self._queue(request)
            if peeked.type_url == _LISTENER:
                self._listeners_asked = True
                self._subscribe()

    async def _write_control_plane(self, control_plane: GrpcSide) -> None:
        while True:
            request = await self._requests.get()
            self._queued_bytes -= len(request)
            try:
                await self._to_control_plane.write(control_plane, request)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the call has ended; the reading loop learns how

    async def _read_control_plane(self, control_plane: GrpcSide) -> None:
        while (response := await _next(control_plane)) is not None:
            if not self._answered:
                self._answered = True
                if self.leads:
                    self._connection.answered()
            try:
                forward = self._note_response(response)
            except WireError as error:
                self._complain_of_response(error)
                return
            if forward:
                await self._responses.put(response)
        code, details = await control_plane.code(), await control_plane.details() or ""
        if self._answered or code is grpc.StatusCode.OK:
            self._connection.lost(code, details, leads=self.leads)
        else:
            reason = _refusal(code, details, shown=control_plane.shown)
            self._connection.failed(reason, leads=self.leads)
        await self._responses.put(End(by=Side.CONTROL_PLANE, code=code, details=details))

    def _note_response(self, response: bytes) -> bool:
        """Enter a response into the ledger; whether it goes to Envoy."""
        peeked = self._dialect.read_response(response)
        type_url, counters = peeked.type_url, self._connection.counters
        if self._interception.wants(type_url):
            counters.responses += 1
            self._intercept(response, peeked)
            return False
        if type_url.rpartition("/")[2].startswith(_FORWARDED):
            counters.responses += 1
            self.ledger.sent(
                type_url=type_url,
                version=peeked.version,
                nonce=peeked.nonce,
                at=self._connection.now(),
                control_plane=peeked.control_plane,
            )
            self._observation.passing(self, type_url, peeked.nonce)
            return True
        counters.dropped += 1
        if type_url not in self._complained_of and len(self._complained_of) < _MAX_COMPLAINTS:
            self._complained_of.add(type_url)
            log.error(
                "dropped a response of a type that Envoy does not know",
                extra={"type_url": type_url[:256], "nonce": peeked.nonce[:256]},
            )
        return False

    def _note_request(self, peeked: Request) -> None:
        type_url, error = peeked.type_url, peeked.error
        self.ledger.asked(type_url, holds=peeked.holds)
        answered = self.ledger.answered(
            type_url=type_url, nonce=peeked.nonce, error=error, at=self._connection.now()
        )
        if answered is not None and error is not None:
            self._connection.counters.refused += 1
            log.warning(
                "Envoy refused a configuration and keeps the last good one",
                extra={"type_url": type_url, "version": answered, "reason": error},
            )
        self._observation.answered(self, type_url, peeked.nonce)

    def _subscribe(self) -> None:
        """The agent's own subscriptions come right after Envoy's first listener request."""
        if self.leads and self._listeners_asked and not self._subscribed:
            self._subscribed = True
            for request in self._interception.subscriptions(self._dialect):
                self._queue(request)

    def _intercept(self, response: bytes, peeked: Response) -> None:
        """Have the agent take a response and answer it, now or when this stream leads."""
        if not self.leads:
            self._unread[peeked.type_url] = response, peeked
            return
        try:
            answer = self._interception.take(self._dialect, response, peeked)
        except WireError as error:
            self._complain_of_response(error)
        else:
            self._queue(answer)

    def _queue(self, request: bytes) -> None:
        """Have a request sent to the control plane, in its turn."""
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
        self._connection.not_reading(reason, leads=self.leads)
        details = f"the control plane does not read: {reason}"
        self.end(End(by=Side.CONTROL_PLANE, code=grpc.StatusCode.UNAVAILABLE, details=details))

    def _envoy_overdue(self, waited_s: float, size: int, reason: str) -> None:
        """End the connection: a status would wait behind what is not read."""
        self._connection.counters.envoy_not_reading += 1
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

    def _complain_of_response(self, error: WireError) -> None:
        log.error("the control plane sent a malformed response", extra={"reason": str(error)})
        self.end(_malformed("the control plane's response", error))


async def _next(control_plane: GrpcSide) -> bytes | None:
    """The next response, None once the call has ended; it then knows its status."""
    try:
        response = await control_plane.read()
    except grpc.aio.AioRpcError:
        return None
    return None if response is EOF else bytes(response)


def _refusal(code: grpc.StatusCode, details: str, *, shown: str) -> str:
    """Why there is no stream, in words. `shown`: what we proved ourselves by, in words."""
    about_us = f" ({shown})"
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            said = "unauthenticated: it does not accept what this workload proves itself by"
        case grpc.StatusCode.PERMISSION_DENIED:
            said = "permission denied: it does not serve this workload's identity"
        case grpc.StatusCode.UNIMPLEMENTED:
            said, about_us = "it does not serve this kind of xDS stream", ""
        case _:
            said, about_us = f"it ended the stream before its first answer ({code.name})", ""
    return f"{said}: {details}{about_us}" if details else f"{said}{about_us}"


def _malformed(what: str, error: WireError) -> End:
    return End(
        by=Side.RELAY, code=grpc.StatusCode.INTERNAL, details=f"{what} is malformed: {error}"
    )
