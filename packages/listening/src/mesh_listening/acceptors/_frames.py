"""Walks the frames of HTTP/2 as their bytes come by, in whatever pieces, and keeps none of them.

https://www.rfc-editor.org/rfc/rfc9113.html#section-4.1 has the layout of a frame. Nothing here
is an error: the two ends of the connection judge what they receive.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends before its first frame."""
HEADER_BYTES = 9

END_STREAM = 0x1
PADDED = 0x8


class Kind(IntEnum):
    """The frames that are looked at."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    WINDOW_UPDATE = 8


class Piece(NamedTuple):
    """Bytes of one frame's payload: from `start` to `end` in `Frames.data`.

    head: where the frame's header begins there; -1 if it came earlier. left: the bytes of the
    payload that are still to come.
    """

    kind: int
    flags: int
    stream: int
    head: int
    start: int
    end: int
    left: int


class Frames:
    """The frames of one direction of a connection.

    whole: frames of these kinds, if they are short, are given out whole, and what there is of one
    stays in `rest` until then; so do headers of frames.
    """

    __slots__ = ("_flags", "_kind", "_stream", "_whole", "data", "left", "rest")

    def __init__(self, *, whole: frozenset[int] = frozenset()) -> None:
        self._whole = whole
        self._kind = self._flags = self._stream = 0
        self.left = 0
        """Bytes of the payload that are still to come: 0 between two frames."""
        self.rest = b""
        """Bytes at the end of the last ones that are part of what is given out next."""
        self.data = b""
        """The bytes that pieces are parts of: those that came last, after the rest of others."""

    def walk(self, data: bytes) -> Iterator[Piece]:
        """Yield the pieces of some bytes; a frame without a payload is one empty piece."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        self.data = data
        at, end = 0, len(data)
        while at < end:
            head = -1
            if not self.left:
                head = at
                if end - at < HEADER_BYTES:
                    break
                length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
                self._kind, self._flags = data[at + 3], data[at + 4]
                self._stream = int.from_bytes(data[at + 5 : at + 9]) & 0x7FFFFFFF
                at += HEADER_BYTES
                if self._kind in self._whole and end - at < length < HEADER_BYTES:
                    at = head
                    break
                self.left = length
            start = at
            at = min(end, start + self.left)
            self.left -= at - start
            yield Piece(self._kind, self._flags, self._stream, head, start, at, self.left)
        self.rest = data[at:]
