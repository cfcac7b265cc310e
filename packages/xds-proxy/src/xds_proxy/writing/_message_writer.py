"""Writing to one side of a stream, and noticing when that side does not read.

HTTP/2 flow control lets either side stop reading one stream for as long as it likes, while it
answers pings and reads everything else. A write to such a stream does not end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from mesh_lifecycle import Clock, in_background
from mesh_listening import PendingWrites, Reader
from xds_proxy._config import RelayConfig
from xds_proxy.writing._memory_release import LARGE_BYTES

_SLOW_S = 1.0
"""A stream with a message pending for longer may be ended when too much is pending in all."""

Overdue = Callable[[float, int, str], None]
"""Called with the seconds a message has been pending, its bytes, and why that is too much."""


class Writable(Protocol):
    """One side of a stream that messages are written to."""

    def write(self, message: bytes, /) -> Awaitable[None]:
        """Send a message; returns when the network has taken it."""


class MessageWriter:
    """Writes the messages to one side of a stream, one at a time."""

    def __init__(self, pending_writes: PendingWrites, overdue: Overdue) -> None:
        self._pending_writes = pending_writes
        self._overdue = overdue
        self.is_writing = False
        """Whether a message was handed to gRPC and not yet taken by the network."""

    async def write(self, side: Writable, message: bytes) -> None:
        """Write a message. After a cancellation it stays pending until `forget` is called."""
        self.is_writing = True
        self._pending_writes.begin(self, len(message))
        await side.write(message)
        self.forget()

    def forget(self) -> None:
        """The pending message was taken, or its call has ended."""
        self.is_writing = False
        self._pending_writes.end(self)

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        """Called by `PendingWrites` when the message has been pending for too long."""
        self._overdue(waited_s, size, reason)


class _ReportedWrites(PendingWrites):
    """Pending writes that report the size of each large message."""

    def __init__(
        self,
        on_message: Callable[[int], None],
        *,
        longest_s: float | None,
        max_bytes: int,
        slow_s: float,
        clock: Clock,
    ) -> None:
        super().__init__(longest_s=longest_s, max_bytes=max_bytes, slow_s=slow_s, clock=clock)
        self._on_message = on_message

    def begin(
        self,
        reader: Reader,
        size: int,
        taken: Callable[[], int] | None = None,
        *,
        holder: str = "",
    ) -> None:
        if size >= LARGE_BYTES:
            self._on_message(size)
        super().begin(reader, size, taken, holder=holder)


class WriteBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The pending writes of all streams together, and how much may be queued in one of them."""

    to_envoys: PendingWrites
    to_control_plane: PendingWrites
    max_queued_bytes: int
    max_message_bytes: int

    @classmethod
    def from_config(
        cls, config: RelayConfig, *, clock: Clock, on_message: Callable[[int], None]
    ) -> WriteBounds:
        """Return the bounds of a relay before it has written anything.

        on_message: called with the bytes of each large message that is written.
        """

        def pending_writes() -> PendingWrites:
            return _ReportedWrites(
                on_message,
                longest_s=config.send_timeout_s,
                max_bytes=config.max_pending_write_bytes,
                slow_s=_SLOW_S,
                clock=clock,
            )

        return cls(
            to_envoys=pending_writes(),
            to_control_plane=pending_writes(),
            max_queued_bytes=config.max_queued_bytes,
            max_message_bytes=config.max_message_bytes,
        )

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """While the block runs, look for sides that do not read."""
        async with (
            in_background(self.to_envoys.run(), name="xds-proxy: pending writes to Envoy"),
            in_background(self.to_control_plane.run(), name="xds-proxy: pending writes upstream"),
        ):
            yield
