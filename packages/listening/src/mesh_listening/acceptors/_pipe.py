"""Forwards bytes between a client's connection and its inner connection to the server.

It exists once for every open connection, so it is callbacks only: no task, no coroutine.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from mesh_listening.acceptors._deadlines import Deadlines

_RECORD_BYTES = 16 * 1024
"""The most that one TLS record holds. More at once is encrypted into a buffer that never shrinks
while the connection is open: 85 kB of memory for 100 kB sent."""


class Link(Protocol):
    """The owner of two ends. stalls: the ends whose peer has not read all that was sent."""

    stalls: "Deadlines[End]"

    def lost(self, end: "End", /) -> None:
        """The connection of `end` has ended; called before its socket is closed."""

    def on_stall(self) -> None:
        """The peer of one of the ends has read nothing for too long."""


class End(asyncio.Protocol):
    """One end; sends the bytes that it receives at the other end, with back-pressure."""

    __slots__ = (
        "_descriptor",
        "_early",
        "_other",
        "_through",
        "_transport",
        "has_received",
        "link",
        "written_bytes",
    )

    def __init__(self, link: Link) -> None:
        self.link = link
        self.has_received = False
        self.written_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._other: End | None = None
        self._early: bytes | None = None
        self._through: Callable[[bytes], bytes] | None = None

    def forward_to(self, other: "End", *, through: Callable[[bytes], bytes]) -> None:
        """From now on, forward to `other`, first the bytes that came before.

        through: returns the bytes that go on of those that came; later ones may go before its rest.
        """
        self._through = through
        if self._transport is None:
            other.close()  # this end has closed in the meantime
            return
        self._other = other
        with suppress(RuntimeError):  # closing already
            self._transport.resume_reading()
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def write(self, data: bytes) -> None:
        if self._transport is None:
            return
        self.written_bytes += len(data)
        rest: bytes | memoryview = data
        # uvloop sends at the end of a loop iteration, and would hold a push to a thousand
        # connections until then. What the kernel takes now need not be held.
        if self._transport.get_write_buffer_size() == 0 and not self._transport.is_closing():
            if self._descriptor < 0:
                self._descriptor = self._transport.get_extra_info("socket").fileno()
            try:
                sent = os.write(self._descriptor, data)
            except OSError:
                sent = 0  # full or broken: the transport handles both
            if sent == len(data):
                return
            rest = memoryview(data)[sent:]
        self._transport.write(rest)

    def close(self) -> None:
        """Close after the buffered bytes were sent, unless the peer stops reading."""
        if self._transport is not None:
            self.link.stalls.add(self)
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._transport.pause_reading()  # until `forward_to`

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        if self._other is None:
            self._early = data if self._early is None else self._early + data
        elif self._through is not None and (on := self._through(data)):
            self._other.write(on)

    def pause_writing(self) -> None:
        self.link.stalls.add(self)
        if self._other is not None and self._other._transport is not None:
            with suppress(RuntimeError):  # closing already
                self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        self.link.stalls.discard(self)
        if self._other is not None and self._other._transport is not None:
            with suppress(RuntimeError):
                self._other._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self.link.stalls.discard(self)
        other, self._other, self._through = self._other, None, None
        self.link.lost(self)
        if other is not None:
            other.close()


class TlsEnd(End):
    """An end with TLS."""

    __slots__ = ()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            return
        self.written_bytes += len(data)
        whole = memoryview(data)
        for start in range(0, len(whole), _RECORD_BYTES):
            self._transport.write(whole[start : start + _RECORD_BYTES])
