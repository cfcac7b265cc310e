"""How many bytes are on their way to clients at once, and whose turn it is.

A large response is put together for its client, and copied by gRPC, only when there is room for it:
while less than so many bytes are on their way to clients that read, and in all. Clients that do not
read have their part of the second bound only, so they hold up the others for a quarter of a second.

Answers and pushes wait in a line for each connection, in which the response is no more than a
reference to bytes that all clients share. Holders alternate, and so do the connections of each, so
that a client which comes waits for one response of each other holder, and not for all that one
caller has asked for on its streams. A holder to whom as much is pending as may be
(`PendingWrites.is_held_up`) waits alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from mesh_listening import PendingWrites, Reader

_PATIENCE_S = 0.25
"""A client reads if a response was begun, or a part of it was taken, within this time."""

_SMALL_BYTES = 64 * 1024
"""A response up to this size does not wait: a client that is to get little would else stand in line
behind a thousand that get everything."""

_Line = deque[asyncio.Future[None]]


class _Lines:
    """The lines of one holder, by connection; those whose turn it is come first."""

    __slots__ = ("by_connection",)

    def __init__(self) -> None:
        self.by_connection: dict[str, _Line] = {}

    def add(self, connection: str, turn: asyncio.Future[None]) -> None:
        self.by_connection.setdefault(connection, deque()).append(turn)

    def remove(self, connection: str, turn: asyncio.Future[None]) -> None:
        line = self.by_connection.get(connection, deque())
        with suppress(ValueError):
            line.remove(turn)
        if not line:
            self.by_connection.pop(connection, None)

    def pop(self) -> asyncio.Future[None]:
        """Return whose turn it is, and let the other connections come first."""
        connection = next(iter(self.by_connection))
        line = self.by_connection.pop(connection)
        turn = line.popleft()
        if line:
            self.by_connection[connection] = line
        return turn


class WriteRoom:
    """The room for responses; `to_readers_bytes` and `most_bytes` are the two bounds.

    Each is exceeded by one response at most, so that a response may be larger than they are. A
    holder to whom nothing is pending may begin while the second is exceeded by less than the first:
    others have filled it, and are about to give way.
    """

    def __init__(self, pending: PendingWrites, *, to_readers_bytes: int, most_bytes: int) -> None:
        self._pending = pending
        self._to_readers_bytes = to_readers_bytes
        self._most_bytes = most_bytes
        # The holder whose turn it is comes first; each has a line that is not empty.
        self._lines: dict[str, _Lines] = {}
        self._look_again: asyncio.TimerHandle | None = None
        self._scheduled = False

    def __len__(self) -> int:
        """The number of responses that wait."""
        return sum(len(line) for of in self._lines.values() for line in of.by_connection.values())

    def must_wait(self, size: int, holder: str = "") -> bool:
        """Return whether a response of this size to a holder has to `wait` before it is begun."""
        if self._pending.is_held_up(holder):
            return True
        return size > _SMALL_BYTES and (holder in self._lines or self._is_full(holder))

    async def wait(self, holder: str = "", connection: str = "") -> None:
        """Wait for room; the caller then begins at once. connection: its address."""
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(holder, _Lines()).add(connection, turn)
        self._watch()
        try:
            await turn
        finally:
            # Unless it is cancelled it is not in there any more.
            self._leave(holder, connection, turn)
            if not self._lines:
                self._stop_watching()

    def begin(
        self, reader: Reader, size: int, taken: Callable[[], int] | None, holder: str = ""
    ) -> None:
        """A response is handed to the network; of one client one at a time."""
        self._pending.begin(reader, size, taken, holder=holder)

    def end(self, reader: Reader) -> float:
        """The client has read it, or it is given up. Returns for how long it was pending."""
        took_s = self._pending.end(reader)
        self._schedule()
        return took_s

    def _leave(self, holder: str, connection: str, turn: asyncio.Future[None]) -> None:
        lines = self._lines.get(holder)
        if lines is not None:
            lines.remove(connection, turn)
            if not lines.by_connection:
                del self._lines[holder]

    def _may_begin(self, holder: str) -> bool:
        return not self._pending.is_held_up(holder) and not self._is_full(holder)

    def _is_full(self, holder: str) -> bool:
        pending, most = self._pending, self._to_readers_bytes
        in_all = self._most_bytes
        if holder and not pending.bytes_of(holder):
            in_all += most
        if pending.bytes > in_all:
            return True
        return pending.bytes >= most and pending.bytes_to_readers(_PATIENCE_S) >= most

    def _schedule(self) -> None:
        if self._lines and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        """Let the first go on that may; once it has begun, look whether there is room for more."""
        self._scheduled = False
        holder = next(filter(self._may_begin, self._lines), None)
        if holder is None:
            return
        lines = self._lines.pop(holder)
        turn = lines.pop()
        if lines.by_connection:
            self._lines[holder] = lines  # It is the others' turn.
        if not turn.done():
            turn.set_result(None)
        self._schedule()

    def _watch(self) -> None:
        """Look now and then whether those that are written to have stopped reading."""
        if self._look_again is None:
            loop = asyncio.get_running_loop()
            self._look_again = loop.call_later(_PATIENCE_S, self._look)

    def _look(self) -> None:
        self._look_again = None
        if self._lines:
            self._schedule()
            self._watch()

    def _stop_watching(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None
