"""Writing to one side of a stream, and finding out that this side does not read.

HTTP/2 lets either side give a stream no room, for as long as it likes, while it answers pings and
takes everything else. A write to it does not end then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from mesh_lifecycle import Clock, in_background
from mesh_listening import PendingWrites
from xds_proxy._config import RelayConfig

_SLOW_S = 1.0
"""Who takes longer for a message may lose its stream, should too much wait."""

Overdue = Callable[[float, int, str], None]
"""Called with the seconds a message has waited, its bytes, and why that is too much."""


class Writable(Protocol):
    """One side of a stream."""

    def write(self, message: bytes, /) -> Awaitable[None]:
        """Send a message; returns when the network has taken it."""


class Delivery:
    """The messages to one side, one at a time."""

    def __init__(self, untaken: PendingWrites, overdue: Overdue) -> None:
        self._pending_writes = untaken
        self._overdue = overdue
        self.is_under_way = False
        """Whether a message has been handed over and was not taken yet."""

    async def write(self, side: Writable, message: bytes) -> None:
        """Write a message. Given up, it may be on its way all the same, until `forget`."""
        self.is_under_way = True
        self._pending_writes.begin(self, len(message))
        await side.write(message)
        self.forget()

    def forget(self) -> None:
        """Nothing is on its way any more."""
        self.is_under_way = False
        self._pending_writes.end(self)

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        """Pass on what `PendingWrites` found."""
        self._overdue(waited_s, size, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What all streams have on its way together, and how much may wait in one of them."""

    to_envoys: PendingWrites
    to_control_plane: PendingWrites
    max_queued_bytes: int

    @classmethod
    def of(cls, config: RelayConfig, *, clock: Clock) -> Bounds:
        """Nothing on its way yet."""

        def untaken() -> PendingWrites:
            return PendingWrites(
                longest_s=config.send_timeout_s,
                max_bytes=config.max_pending_write_bytes,
                slow_s=_SLOW_S,
                clock=clock,
            )

        return cls(
            to_envoys=untaken(),
            to_control_plane=untaken(),
            max_queued_bytes=config.max_queued_bytes,
        )

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Find who does not read while the block runs."""
        async with (
            in_background(self.to_envoys.run(), name="xds-proxy: not taken by Envoy"),
            in_background(self.to_control_plane.run(), name="xds-proxy: not taken upstream"),
        ):
            yield
