"""Frames of HTTP/2, and a connection that messages are received on, without sockets."""

from __future__ import annotations

import struct

from mesh_listening import Reason, RequestRoom
from mesh_listening.acceptors._receiving import Receiving

DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 8, 9
END_STREAM, PADDED = 1, 8


def frame(kind: int, stream: int, payload: bytes = b"", *, flags: int = 0) -> bytes:
    length = len(payload)
    return struct.pack(">BHBBI", length >> 16, length & 0xFFFF, kind, flags, stream) + payload


def update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, stream, struct.pack(">I", size))


def prefix(size: int, *, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, size)


def data(stream: int, payload: bytes, *, flags: int = 0, frame_bytes: int = 16384) -> bytes:
    """Frames of DATA; the flags are those of the last."""
    cuts = [payload[at : at + frame_bytes] for at in range(0, len(payload), frame_bytes)] or [b""]
    return b"".join(
        frame(DATA, stream, cut, flags=flags if at == len(cuts) - 1 else 0)
        for at, cut in enumerate(cuts)
    )


class Caller:
    """A connection of one holder: what came to its client, and why it was ended."""

    def __init__(self, room: RequestRoom, holder: str = "one") -> None:
        self.receiving = Receiving(room, self)
        self.to_client = b""
        self.ended: Reason | None = None
        self._holder = holder

    def holder(self) -> str:
        return self._holder

    def write_to_client(self, some: bytes, /) -> None:
        self.to_client += some

    def end_receiving(self, reason: Reason, /) -> None:
        self.ended = reason

    def is_ended(self) -> bool:
        return self.ended is not None

    def send(self, some: bytes) -> None:
        assert self.receiving.from_client(some) == some

    def receive(self, some: bytes) -> None:
        self.to_client += self.receiving.from_server(some)

    def take(self) -> bytes:
        """Return what came to the client since the last time."""
        taken, self.to_client = self.to_client, b""
        return taken
