"""One stream to the control plane: tasks that relay messages until it ends."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

import grpc
import grpc.aio

from mesh_protowire import BeyondLimit, WireError
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.streams._ends import Cause, UpstreamEnd, malformed_end
from xds_proxy.upstream._call import ControlPlaneCall
from xds_proxy.writing._message_writer import MessageWriter, WriteBounds

log = logging.getLogger("xds_proxy")

_SMALL_BYTES = 256 * 1024
"""Responses of up to this size are read on the event loop; larger ones in a thread."""


class Receiver(Protocol):
    """Takes what comes on an upstream stream."""

    def on_upstream_answer(self) -> None:
        """The first response has come."""

    async def take(self, upstream: UpstreamStream, response: bytes, peeked: Response) -> None:
        """Take a response; the next one is read when this returns. Raises WireError."""


class UpstreamStream:
    """One upstream stream, which serves one stream of Envoy's.

    Requests wait in a queue, so that Envoy never has to wait with its own: that could deadlock with
    a control plane that does not read while it writes (https://github.com/istio/istio/issues/39209).
    When the queue grows too long, or the control plane takes none for too long, this stream ends.
    The queue goes with it: the next stream begins with the subscriptions as they are then.

    generation: the number of this stream among those of one stream of Envoy's.
    """

    def __init__(
        self,
        call: ControlPlaneCall,
        *,
        dialect: Dialect,
        generation: int,
        bounds: WriteBounds,
        receiver: Receiver,
    ) -> None:
        self.generation = generation
        self.has_answer = False
        self._call = call
        self._dialect = dialect
        self._receiver = receiver
        self._requests: deque[bytes] = deque()
        self._next_request: asyncio.Future[None] | None = None
        """Done when a request comes; None while requests are being sent."""
        self._queued_bytes = 0
        self._max_queued_bytes = bounds.max_queued_bytes
        self._max_message_bytes = bounds.max_message_bytes
        self._writer = MessageWriter(bounds.to_control_plane, self._overdue)
        self._ended: asyncio.Future[UpstreamEnd] = asyncio.get_running_loop().create_future()

    def send(self, request: bytes) -> None:
        """Queue a request."""
        self._queued_bytes += len(request)
        self._requests.append(request)
        if self._next_request is not None and not self._next_request.done():
            self._next_request.set_result(None)
        if self._queued_bytes > self._max_queued_bytes:
            self._does_not_read(f"more than {self._max_queued_bytes} bytes of requests wait for it")

    def begin_anew(self) -> None:
        """End this stream, so that the next one begins with what Envoy has now."""
        self._end(Cause.ENDED, grpc.StatusCode.OK, "it is opened anew", failure=None)

    def end_for_malformed(self, error: WireError) -> None:
        """End this stream for a response that cannot be read."""
        end = malformed_end("the control plane's response", error)
        self._call.reject(end.details)
        cause = Cause.BEYOND_LIMIT if isinstance(error, BeyondLimit) else Cause.MALFORMED
        self._end(cause, end.code, end.details, failure=end.details)

    async def run(self) -> UpstreamEnd:
        """Relay messages until the stream ends, and return how."""
        cancel: list[Callable[[], bool]] = []
        try:
            async with asyncio.TaskGroup() as group:
                # No variable here may hold a task: its exception has gRPC's call, see
                # ControlPlaneCall.
                for name, work in (("requests on", self._write()), ("responses", self._read())):
                    cancel.append(group.create_task(work, name=f"xds-proxy: {name}").cancel)
                del work
                end = await asyncio.shield(self._ended)
                while cancel:
                    cancel.pop()()
        finally:
            cancel.clear()
            self._writer.forget()
        return end

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._requests:
                self._next_request = loop.create_future()
                await self._next_request
                self._next_request = None
            request = self._requests.popleft()
            self._queued_bytes -= len(request)
            try:
                await self._writer.write(self._call, request)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the call has ended; the reading loop learns how

    async def _read(self) -> None:
        while (response := await _next_response(self._call)) is not None:
            if not self.has_answer:
                self.has_answer = True
                self._receiver.on_upstream_answer()
            try:
                if len(response) > _SMALL_BYTES:
                    # 100 000 resources take a quarter of a second; the loop has others to serve.
                    peeked = await asyncio.to_thread(self._dialect.read_response, response)
                else:
                    peeked = self._dialect.read_response(response)
                await self._receiver.take(self, response, peeked)
            except WireError as error:
                self.end_for_malformed(error)
                return
        code, details = await self._call.code(), await self._call.details() or ""
        most = self._max_message_bytes
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _too_large(most) in details:
            self.end_for_malformed(BeyondLimit(f"it has more than {most} bytes"))
            return
        self._end(Cause.ENDED, code, details, failure=self._call.failure)

    def _overdue(self, waited_s: float, size: int, reason: str) -> None:
        log.debug(
            "a request was not taken",
            extra={"waited_s": round(waited_s, 1), "bytes": size, "reason": reason},
        )
        self._does_not_read(f"it has not taken a request for {waited_s:.0f} s")

    def _does_not_read(self, reason: str) -> None:
        details = f"the control plane does not read: {reason}"
        self._call.reject(details)
        self._end(Cause.NOT_READING, grpc.StatusCode.UNAVAILABLE, details, failure=reason)

    def _end(
        self, cause: Cause, code: grpc.StatusCode, details: str, *, failure: str | None
    ) -> None:
        if not self._ended.done():
            end = UpstreamEnd(cause=cause, code=code, details=details, failure=failure)
            self._ended.set_result(end)


def _too_large(most: int) -> str:
    """Return the end of gRPC's text for a message that this side refuses.

    Nothing but the text distinguishes it from one that the other side refused, for a limit of
    its own.
    """
    return f"vs. {most})"


async def _next_response(call: ControlPlaneCall) -> bytes | None:
    """Return the next response, None once the call has ended; it then knows its status."""
    try:
        return await call.read()
    except grpc.aio.AioRpcError:
        return None
