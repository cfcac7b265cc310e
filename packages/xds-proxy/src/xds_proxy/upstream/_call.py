"""One stream to the control plane, as long as its block runs."""

from __future__ import annotations

from collections.abc import Awaitable

import grpc
import grpc.aio


class ControlPlaneCall:
    """A gRPC call that is released when its block ends, also if references to this object remain.

    gRPC keeps a connection open until the last of its calls is freed. The frames of an exception
    keep their arguments alive, and asyncio's task groups leave such exceptions to the garbage
    collector, which may not run for hours in an idle agent. So those frames get this object, which
    lets go of the call.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes], *, shown: str) -> None:
        """shown: the credentials that were presented, in words, for when they are refused."""
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] | None = call
        self.shown = shown

    def read(self) -> Awaitable[object]:
        """Return the next message, or EOF."""
        return self._open.read()

    def write(self, message: bytes) -> Awaitable[None]:
        """Send a message."""
        return self._open.write(message)

    def code(self) -> Awaitable[grpc.StatusCode]:
        """Wait for the end of the call and return its status."""
        return self._open.code()

    def details(self) -> Awaitable[str | None]:
        """Wait for the end of the call and return its status text."""
        return self._open.details()

    def release(self) -> None:
        """Cancel the call and let go of it."""
        self._open.cancel()
        self._call = None

    @property
    def _open(self) -> grpc.aio.StreamStreamCall[bytes, bytes]:
        if self._call is None:
            raise RuntimeError("this call was released when its block ended")
        return self._call
