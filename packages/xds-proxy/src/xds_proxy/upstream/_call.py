"""One stream to the control plane, as long as its block runs."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple, Protocol

import grpc
import grpc.aio

from xds_proxy.upstream._end_status import EndStatus, Status
from xds_proxy.upstream._refusal import refusal


class Outcome(Protocol):
    """Called with how a stream goes."""

    def on_answer(self) -> None:
        """The first response has come."""

    def on_end(self, failure: str | None, *, code: grpc.StatusCode, lasted_s: float) -> None:
        """The stream has ended from above. failure: why, if it ended before the first answer."""

    def on_unimplemented(self) -> str | None:
        """The method is not served there; returns why the next stream does without, if it does."""

    def on_silence(self, waited_s: float) -> str | None:
        """No response yet, `waited_s` after the first request; returns why to give up, if so."""


class _GivenUp(NamedTuple):
    """The status of a stream that was ended from this side; failure: why, if it is a failure."""

    code: grpc.StatusCode
    details: str
    failure: str | None


class ControlPlaneCall:
    """A gRPC call that is released when its block ends, also if references to this object remain.

    gRPC keeps a connection open until the last of its calls is freed. The frames of an exception
    keep their arguments alive, and asyncio's task groups leave such exceptions to the garbage
    collector, which may not run for hours in an idle agent. So those frames get this object, which
    lets go of the call.
    """

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[bytes, bytes],
        *,
        address: str,
        shown: str,
        outcome: Outcome,
        answer_timeout_s: float | None,
    ) -> None:
        """address: the control plane's, as configured.

        shown: the credentials that were presented, in words, for when they are refused.
        answer_timeout_s: how long after the first request `outcome` is asked whether to give up;
            None for a stream that need not be answered.
        """
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] | None = call
        self._end_status = EndStatus(call)
        self.address = address
        self.shown = shown
        self._outcome = outcome
        self._answer_timeout_s = answer_timeout_s
        self._silence: asyncio.TimerHandle | None = None
        self._asked = False
        self._answered_at: float | None = None
        self._given_up: _GivenUp | None = None
        self._end_reported = False
        self.failure: str | None = None
        self.ended_with: Status | None = None
        """The status that it ended with from above; None before that, and if it did not."""

    async def read(self) -> bytes | None:
        """Return the next message, None at the end; raises AioRpcError for an end with an error."""
        message: object = None
        try:
            message = await self._open.read()
        except grpc.aio.AioRpcError:
            self._on_end(*await self._end_status.wait_for(self._open))
            raise
        except asyncio.CancelledError:
            # gRPC raises it for the status CANCELLED as well, whichever side that comes from.
            if _is_cancelled():
                raise
        if not isinstance(message, bytes):
            self._on_end(await self.code(), await self.details() or "")
            return None
        if self._answered_at is None:
            self._on_answer()
        return message

    async def write(self, message: bytes) -> None:
        """Send a message; raises AioRpcError or InvalidStateError if the stream has ended."""
        try:
            await self._open.write(message)
        except grpc.aio.AioRpcError:
            self._end_status.write_failed = True
            raise
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise asyncio.InvalidStateError("the stream has ended") from None
        if not self._asked:
            self._asked = True
            self._await_answer()

    async def done_writing(self) -> None:
        """Half-close; raises AioRpcError or InvalidStateError if the stream has ended."""
        try:
            await self._open.done_writing()
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise asyncio.InvalidStateError("the stream has ended") from None

    async def code(self) -> grpc.StatusCode:
        """Wait for the end of the call and return its status."""
        code, _ = await self._end_status.wait_for(self._open)
        return code if self._given_up is None else self._given_up.code

    async def details(self) -> str | None:
        """Wait for the end of the call and return its status text."""
        _, details = await self._end_status.wait_for(self._open)
        return details if self._given_up is None else self._given_up.details

    def move(self, details: str) -> None:
        """End the stream in an ordinary way, because another control plane is preferred now.

        A stream that has not been answered yet is left as it is.
        """
        if self._answered_at is not None:
            self._give_up(grpc.StatusCode.OK, details, failure=None)

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Do what the stream does beside reading and writing, as long as the block runs."""
        return nullcontext()

    def reject(self, failure: str) -> None:
        """Count this stream as failed, for what comes on it or does not go; its block ends next."""
        if not self._end_reported:
            self._end_reported = True
            self._stop_waiting()
            self.failure = failure
            code = grpc.StatusCode.UNAVAILABLE
            self._outcome.on_end(failure, code=code, lasted_s=0.0)

    def release(self) -> None:
        """Cancel the call and let go of it."""
        self._stop_waiting()
        self._open.cancel()
        self._call = None

    @property
    def _open(self) -> grpc.aio.StreamStreamCall[bytes, bytes]:
        if self._call is None:
            raise RuntimeError("this call was released when its block ended")
        return self._call

    def _await_answer(self) -> None:
        if self._answer_timeout_s is not None and self._answered_at is None:
            timeout_s = self._answer_timeout_s
            loop = asyncio.get_running_loop()
            self._silence = loop.call_later(timeout_s, self._on_silence, timeout_s)

    def _on_silence(self, waited_s: float) -> None:
        reason = self._outcome.on_silence(waited_s)
        if reason is None:
            self._await_answer()
        else:
            self._give_up(grpc.StatusCode.UNAVAILABLE, reason, failure=reason)

    def _give_up(self, code: grpc.StatusCode, details: str, *, failure: str | None) -> None:
        """End the stream from this side; its reader sees it end with this status.

        Not before the first request was sent: gRPC's `write` would wait for ever.
        """
        if self._given_up is None and self._call is not None and not self._call.done():
            self._given_up = _GivenUp(code, details, failure)
            self._call.cancel()

    def _on_answer(self) -> None:
        self._stop_waiting()
        self._answered_at = asyncio.get_running_loop().time()
        self._outcome.on_answer()

    def _on_end(self, code: grpc.StatusCode, details: str) -> None:
        if self._end_reported:
            return
        self.ended_with = Status(code, details)
        self._end_reported = True
        self._stop_waiting()
        lasted_s = 0.0
        if self._given_up is not None:
            self.failure = self._given_up.failure
        elif self._answered_at is None and code is grpc.StatusCode.UNIMPLEMENTED:
            if (instead := self._outcome.on_unimplemented()) is not None:
                # No failure: it is as if the control plane had asked for another stream.
                self._given_up = _GivenUp(grpc.StatusCode.OK, instead, failure=None)
            else:
                self.failure = refusal(code, details, shown=self.shown)
        elif self._answered_at is None:
            self.failure = refusal(code, details, shown=self.shown)
        if self._answered_at is not None:
            lasted_s = asyncio.get_running_loop().time() - self._answered_at
        self._outcome.on_end(self.failure, code=code, lasted_s=lasted_s)

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


def _is_cancelled() -> bool:
    """Return whether the running task is being cancelled, rather than the call alone."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
