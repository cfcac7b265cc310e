"""Room for large messages that are being received: which may come now, and which have to wait.

A message of many megabytes is in memory from its first byte to its last, and its sender decides how
long that is. So it is let come when there is room for all of it, in a line of its holder's and in
one of all holders. Room that was given is enough for the whole message; a message that is larger
than all there is comes alone. One that has room, does not come and keeps others waiting gives way.
The first bytes of a message come without room, and are counted: who has too many gives way, too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

FREE_BYTES = 64 * 1024
"""Of a message that come without room: what HTTP/2 lets a client send at once."""

LOOKS = 8
"""A message has so many looks, in `slow_s`, to come on while others wait for it."""
MOST_LOOKS = 4 * LOOKS
"""And so many to come wholly: a little now and then would keep others waiting for minutes."""

STEADY_BYTES = 256 * 1024
"""A message of which so much has come since comes on."""

_MIB = 1024 * 1024


class Sender(Protocol):
    """A connection that messages come on."""

    def has_room(self, message: "Message", /) -> None:
        """Let the message come."""

    def give_way(self, message: "Message | None", /) -> None:
        """End the connection: for a message that does not come, or for all that have begun (None).

        Its messages and what it has begun are given up when this returns.
        """


class Message:
    """A message that needs room. received: its bytes that have come, which its sender sets."""

    __slots__ = (
        "_all_looks",
        "_looks",
        "_seen",
        "has_room",
        "holder",
        "received",
        "sender",
        "size",
        "stream",
    )

    def __init__(self, sender: Sender, stream: int, *, holder: str, size: int) -> None:
        self.sender = sender
        self.stream = stream
        self.holder = holder
        self.size = size
        self.has_room = False
        self.received = 0
        self._seen = self._looks = self._all_looks = 0

    def is_slow(self) -> bool:
        """Look at it; returns whether others have waited for it for too many looks."""
        self._all_looks += 1
        if self.received - self._seen >= STEADY_BYTES:
            self._seen, self._looks = self.received, 0
        else:
            self._looks += 1
        return self._looks > LOOKS or self._all_looks > MOST_LOOKS


class _Holder:
    """The messages of one holder. waiting, coming: in their order. begun: bytes, by connection."""

    __slots__ = ("begun", "begun_bytes", "bytes", "coming", "is_in_line", "waiting")

    def __init__(self) -> None:
        self.bytes = 0
        self.waiting: dict[Message, None] = {}
        self.coming: dict[Message, None] = {}
        self.is_in_line = False
        self.begun: dict[Sender, int] = {}
        self.begun_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not (self.bytes or self.waiting or self.coming or self.begun)


class Later(Protocol):
    """Calls a function later, as an event loop does."""

    def __call__(self, seconds: float, function: Callable[[], None], /) -> object: ...


def _by_the_loop(seconds: float, function: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, function)


class RequestRoom:
    """The room of all that a server receives; sizes in bytes.

    max_bytes: of large messages in all. max_holder_bytes: of one holder. max_begun_bytes,
    max_begun_holder_bytes: the same of the first bytes of messages, which come without room.
    slow_s: a message that has room and does not come on for so long gives way if others wait for
        it; so does one that has not come in four times as long.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 128 * _MIB,
        max_holder_bytes: int = 32 * _MIB,
        max_begun_bytes: int = 256 * _MIB,
        max_begun_holder_bytes: int = 128 * _MIB,
        slow_s: float = 5.0,
        later: Later = _by_the_loop,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_holder_bytes = max_holder_bytes
        self._max_begun_bytes = max_begun_bytes
        self._max_begun_holder_bytes = max_begun_holder_bytes
        self._slow_s = slow_s
        self._later = later
        self._holders: dict[str, _Holder] = {}
        # Holders whose first waiting message fits into their own part, each once.
        self._line: deque[str] = deque()
        self._waiting = 0
        self._is_giving = self._looks = False
        self.bytes = 0
        """Of the large messages that have room."""
        self.begun_bytes = 0
        """Of the first bytes of others."""

    @property
    def waiting(self) -> int:
        """How many messages wait for room."""
        return self._waiting

    def bytes_of(self, holder: str) -> int:
        """Return the bytes of one holder's messages that have room."""
        known = self._holders.get(holder)
        return 0 if known is None else known.bytes

    def ask(self, message: Message) -> None:
        """Let its sender know when there is room for a message, perhaps at once."""
        known = self._known(message.holder)
        known.waiting[message] = None
        self._waiting += 1
        self._line_up(message.holder, known)
        self._give()
        self._look_later()

    def end(self, message: Message) -> None:
        """A message has come, or will not: it needs no room any more."""
        known = self._holders.get(message.holder)
        if known is None:
            return
        if message in known.waiting:
            del known.waiting[message]
            self._waiting -= 1
        elif message in known.coming:
            del known.coming[message]
            self._count(known, -message.size)
        self._on_change(message.holder, known)

    def hold(self, holder: str, size: int) -> None:
        """So many bytes that came are still kept, and those that wait have to wait for them."""
        self._count(self._known(holder), size)

    def release(self, holder: str, size: int) -> None:
        """So many bytes that were held are not kept any more."""
        known = self._known(holder)
        self._count(known, -size)
        self._on_change(holder, known)

    def begin(self, sender: Sender, size: int, *, holder: str) -> None:
        """So many bytes more have come without room on a connection; fewer, if negative."""
        known = self._known(holder)
        known.begun[sender] = known.begun.get(sender, 0) + size
        if not known.begun[sender]:
            del known.begun[sender]
        known.begun_bytes += size
        self.begun_bytes += size
        if size > 0:
            self._bound_begun(known)
        self._on_change(holder, known)

    def _bound_begun(self, known: _Holder) -> None:
        while known.begun_bytes > self._max_begun_holder_bytes:
            max(known.begun, key=lambda each: known.begun[each]).give_way(None)
        while self.begun_bytes > self._max_begun_bytes:
            most = max(self._holders.values(), key=lambda each: each.begun_bytes)
            max(most.begun, key=lambda each: most.begun[each]).give_way(None)

    def _known(self, holder: str) -> _Holder:
        known = self._holders.get(holder)
        if known is None:
            known = self._holders[holder] = _Holder()
        return known

    def _count(self, known: _Holder, size: int) -> None:
        known.bytes += size
        self.bytes += size

    def _on_change(self, holder: str, known: _Holder) -> None:
        if known.is_empty and not known.is_in_line and self._holders.get(holder) is known:
            del self._holders[holder]
        self._line_up(holder, known)
        self._give()

    def _line_up(self, holder: str, known: _Holder) -> None:
        """Put a holder at the end of the line, if its part has room for its first message."""
        if known.waiting and not known.is_in_line and self._fits(next(iter(known.waiting)), known):
            known.is_in_line = True
            self._line.append(holder)

    def _fits(self, message: Message, known: _Holder) -> bool:
        return not known.bytes or known.bytes + message.size <= self._max_holder_bytes

    def _give(self) -> None:
        """Give room to those at the head of the line; none is overtaken by a smaller one."""
        if self._is_giving:
            return
        self._is_giving = True
        try:
            while self._line:
                holder = self._line[0]
                known = self._holders[holder]
                message = next(iter(known.waiting), None)
                if message is not None and self._fits(message, known):
                    if self.bytes and self.bytes + message.size > self._max_bytes:
                        return
                    self._let_come(message, known)
                self._line.popleft()
                known.is_in_line = False
                self._line_up(holder, known)
                if known.is_empty:
                    del self._holders[holder]
        finally:
            self._is_giving = False

    def _let_come(self, message: Message, known: _Holder) -> None:
        del known.waiting[message]
        self._waiting -= 1
        known.coming[message] = None
        self._count(known, message.size)
        message.has_room = True
        message.sender.has_room(message)

    def _look_later(self) -> None:
        if self._waiting and not self._looks:
            self._looks = True
            self._later(self._slow_s / LOOKS, self.look)

    def look(self) -> None:
        """Let messages give way that others wait for and that do not come on.

        It is called `LOOKS` times in `slow_s` while any wait. Looks are counted, not seconds: in
        time that the event loop was away for, nothing could come.
        """
        self._looks = False
        for message in [each for each in self._waited_for() if each.is_slow()]:
            if message.has_room and message in self._known(message.holder).coming:
                message.sender.give_way(message)
        self._look_later()

    def _waited_for(self) -> list[Message]:
        """Return the messages whose end would let others come."""
        if self._line:  # There is room for it in its own holder's part, and not in all.
            return [each for known in self._holders.values() for each in known.coming]
        return [each for known in self._holders.values() if known.waiting for each in known.coming]


class HeldRoom:
    """Room that is held until it is released: a message that has come is still in memory."""

    __slots__ = ("_holder", "_room", "_size")

    def __init__(self, room: RequestRoom, holder: str, size: int) -> None:
        self._room = room
        self._holder = holder
        self._size = size
        room.hold(holder, size)

    def release(self) -> None:
        """Give the room back; does nothing the second time."""
        size, self._size = self._size, 0
        if size:
            self._room.release(self._holder, size)
