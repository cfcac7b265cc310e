"""The requests that come on one connection: large ones come when there is room for them.

gRPC holds a message until its last byte is there, and lets its client send on by WINDOW_UPDATE as
soon as a call waits for it. Those of a large message's stream are held back here until the message
has room; then the client is given what gRPC gave it. So a message that waits costs its first 64 KiB
and nothing else waits for it: neither other streams of the connection nor its pings, as they would
if the connection was not read from. A client that sends on regardless breaks the protocol.

gRPC asks for no more of a message that it refuses, nor of one that no call reads: such messages
never ask for room.
"""

import struct
from typing import Protocol

from mesh_listening.acceptors._frames import END_STREAM, PADDED, PREFACE, Frames, Kind, Piece
from mesh_listening.limits._refusals import Reason
from mesh_listening.limits._request_room import FREE_BYTES, Message, RequestRoom

MOST_UNASKED_BYTES = 2 * FREE_BYTES
"""No client may have sent more of a message that has no room: once what it may send at once, and
what it was given for an earlier message and did not need."""
MOST_STREAMS = 1 << 17
"""Of one connection. gRPC has a smaller bound, but tells the client, who may send on."""

_PREFIX_BYTES = 5  # compressed or not: one byte, and the length
_LARGEST_UPDATE = (1 << 31) - 1
_UPDATE = struct.Struct(">HBBBII")


class _Stream:
    """A stream on which messages come.

    prefix: what has come of the next one's. left: bytes of the message that are still to come.
    begun: its bytes that came without room. owed: what gRPC lets the client send more of it.
    """

    __slots__ = ("asked", "begun", "left", "owed", "padding", "prefix", "size")

    def __init__(self) -> None:
        self.prefix = b""
        self.size = self.left = self.begun = self.owed = 0
        self.padding = 0
        self.asked: Message | None = None

    @property
    def waits(self) -> bool:
        """Whether more of its message may come only when there is room for it."""
        return self.left > 0 and self.size > FREE_BYTES and not self.has_room

    @property
    def has_room(self) -> bool:
        return self.asked is not None and self.asked.has_room


class Owner(Protocol):
    """The connection that the messages come on."""

    def holder(self) -> str:
        """Return the name that they are counted under."""

    def write_to_client(self, data: bytes, /) -> None:
        """Send bytes to the client."""

    def end_receiving(self, reason: Reason, /) -> None:
        """End the connection."""


class Receiving:
    """The messages that come on one connection, of which the owner passes all bytes through."""

    __slots__ = (
        "_due",
        "_follows",
        "_from_client",
        "_from_server",
        "_last_stream",
        "_owner",
        "_preface",
        "_room",
        "_streams",
        "_walks",
    )

    def __init__(self, room: RequestRoom, owner: Owner) -> None:
        self._room = room
        self._owner = owner
        self._preface = 0  # how much of it has come
        self._from_client = Frames()
        self._from_server = Frames(whole=frozenset({Kind.WINDOW_UPDATE}))
        self._streams: dict[int, _Stream | None] = {}  # None: nothing of a message has come yet
        self._last_stream = 0
        self._due = b""  # frames for the client that have to wait until another has ended
        self._walks = False
        self._follows = True

    def from_client(self, data: bytes) -> bytes:
        """Return the bytes that go on to the server of those that came from the client: all."""
        follow = data
        if self._preface < len(PREFACE):
            follow = self._after_preface(data)
        for piece in self._from_client.walk(follow):
            if not self._follows:
                break
            self._follow(piece)
        return data

    def _after_preface(self, data: bytes) -> bytes:
        begins = data[: len(PREFACE) - self._preface]
        if not PREFACE.startswith(begins, self._preface):
            self._follows = False  # It is no HTTP/2, and gRPC ends the connection.
        self._preface += len(begins)
        return data[len(begins) :]

    def from_server(self, data: bytes) -> bytes:
        """Return the bytes that go on to the client of those that came from the server."""
        self._walks = True
        frames = self._from_server
        parts: list[bytes] = []
        copied = 0  # of the data
        for piece in frames.walk(data):
            if piece.head >= 0:
                if self._due:
                    parts += (frames.data[copied : piece.head], self._take_due())
                    copied = piece.head
                if piece.kind == Kind.WINDOW_UPDATE and self._holds_back(piece):
                    parts.append(frames.data[copied : piece.head])
                    copied = piece.end
            if piece.left == 0 and _ends_stream(piece):
                self._forget(piece.stream)
        self._walks = False
        end = len(frames.data) - len(frames.rest)
        if parts or frames.rest or frames.data is not data:
            data = b"".join((*parts, frames.data[copied:end]))
        if self._due and not frames.left:
            data += self._take_due()
        return data

    def close(self) -> None:
        """The connection is over: give up all that was to come."""
        self._follows = False
        for number in tuple(self._streams):
            self._forget(number)

    # What the room calls.

    def has_room(self, message: Message) -> None:
        """Let the client send on."""
        stream = self._streams.get(message.stream)
        if stream is not None:
            self._set_begun(stream, 0)
            message.received = stream.size - stream.left
            self._send_owed(message.stream, stream)

    def give_way(self, message: Message | None) -> None:
        """End the connection."""
        self._give_up(Reason.TOO_MUCH_BEGUN if message is None else Reason.NOT_SENT)

    def _give_up(self, reason: Reason) -> None:
        self.close()
        self._owner.end_receiving(reason)

    # What the client sends.

    def _follow(self, piece: Piece) -> None:
        number = piece.stream
        if piece.kind == Kind.DATA:
            if number in self._streams:
                self._take(piece, self._streams[number] or _Stream())
            return
        if piece.kind == Kind.HEADERS and number > self._last_stream and number & 1:
            self._last_stream = number
            self._streams[number] = None
            if len(self._streams) > MOST_STREAMS:
                self._give_up(Reason.TOO_MUCH_BEGUN)
        if piece.left == 0 and _ends_stream(piece):
            self._forget(number)

    def _take(self, piece: Piece, stream: _Stream) -> None:
        """Follow a piece of a DATA frame."""
        number, start, end = piece.stream, piece.start, piece.end
        self._streams[number] = stream
        data = self._from_client.data
        if piece.flags & PADDED:
            if piece.head >= 0:
                stream.padding = -1  # its length is not known yet
            if stream.padding < 0 and start < end:
                stream.padding = data[start]
                start += 1
            end = min(end, end + piece.left - max(0, stream.padding))
        self._take_messages(stream, start, end)
        if piece.left == 0 and piece.flags & END_STREAM:
            self._forget(number)
        elif stream.asked is not None and stream.asked.has_room:
            stream.asked.received = stream.size - stream.left
        elif stream.left or stream.begun:
            self._set_begun(stream, stream.size - stream.left if stream.left else 0)
            if stream.begun > MOST_UNASKED_BYTES:
                self._give_up(Reason.SENT_UNASKED)
        if stream.owed and not stream.waits:
            self._send_owed(number, stream)

    def _take_messages(self, stream: _Stream, start: int, end: int) -> None:
        data = self._from_client.data
        while start < end:
            if stream.left:
                taken = min(stream.left, end - start)
                stream.left -= taken
                start += taken
                if not stream.left:
                    self._has_come(stream)
                continue
            has = len(stream.prefix)
            prefix = stream.prefix + data[start : min(end, start + _PREFIX_BYTES - has)]
            start += len(prefix) - has
            if len(prefix) < _PREFIX_BYTES:
                stream.prefix = prefix
                return
            stream.prefix = b""
            stream.size = stream.left = int.from_bytes(prefix[1:])

    def _has_come(self, stream: _Stream) -> None:
        asked, stream.asked = stream.asked, None
        if asked is not None:
            self._room.end(asked)

    def _set_begun(self, stream: _Stream, size: int) -> None:
        more, stream.begun = size - stream.begun, size
        if more:
            self._room.begin(self, more, holder=self._owner.holder())

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._has_come(stream)
            self._set_begun(stream, 0)

    # What the server sends.

    def _holds_back(self, piece: Piece) -> bool:
        """Return whether a WINDOW_UPDATE is held back, as the stream's message has no room yet."""
        stream = self._streams.get(piece.stream)
        if stream is None or piece.end - piece.start != 4 or piece.left or not stream.waits:
            return False
        size = int.from_bytes(self._from_server.data[piece.start : piece.end])
        stream.owed += size & _LARGEST_UPDATE  # the first bit means nothing
        if stream.asked is None:
            asked = stream.asked = Message(
                self, piece.stream, holder=self._owner.holder(), size=stream.size
            )
            self._room.ask(asked)
        return True

    def _send_owed(self, number: int, stream: _Stream) -> None:
        while stream.owed:
            some = min(stream.owed, _LARGEST_UPDATE)
            stream.owed -= some
            self._due += _UPDATE.pack(0, 4, Kind.WINDOW_UPDATE, 0, number, some)
        if self._due and not self._walks and not self._from_server.left:
            self._owner.write_to_client(self._take_due())

    def _take_due(self) -> bytes:
        due, self._due = self._due, b""
        return due


def _ends_stream(piece: Piece) -> bool:
    if piece.kind == Kind.RST_STREAM:
        return True
    return piece.kind in (Kind.DATA, Kind.HEADERS) and bool(piece.flags & END_STREAM)
