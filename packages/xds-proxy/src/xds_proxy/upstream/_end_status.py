"""The status that the control plane ended a call with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import NamedTuple, TypeVar

import grpc
import grpc.aio

_T = TypeVar("_T")

_COMES_WITHIN_S = 1.0
"""A status that comes after a failed write is on its way already; there need not be one."""


class Status(NamedTuple):
    """A call's status."""

    code: grpc.StatusCode
    details: str


class EndStatus:
    """Learns how a call ended from the control plane, in spite of writes that fail as it ends.

    gRPC gives a call whose write fails the status INTERNAL, also where the control plane's own has
    come already or comes next, as the two are not ordered: so a refusal would look like a fault of
    gRPC's (https://github.com/grpc/grpc/issues/36066). Of the statuses that a call is given, the
    one that is not INTERNAL counts. Not needed any more once no supported grpcio does that.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self.write_failed = False
        self._status: Status | None = None
        self._known = asyncio.Event()
        call.add_done_callback(self._on_status)

    async def wait_for(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> Status:
        """Wait for the end of the call and return its status."""
        status = Status(await call.code(), await call.details() or "")
        if self.write_failed and not self._known.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_COMES_WITHIN_S):
                    await self._known.wait()
        return self._status or status

    def _on_status(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        """The call has a status; this is called for each one that it is given."""
        status = Status(_result(call.code()), _result(call.details()) or "")
        if status.code is not grpc.StatusCode.INTERNAL and not self._known.is_set():
            self._status = status
            self._known.set()


def _result(coroutine: Coroutine[object, object, _T]) -> _T:
    """Return the result of a coroutine that does not wait, as none does of a call that is done."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a call that is done has no status")
