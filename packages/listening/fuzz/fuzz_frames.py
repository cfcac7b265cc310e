"""Any bytes from a client of a gRPC port, and from the server behind it, in any pieces.

An input is pieces: a byte that says from which side and how many bytes it has, and those. The
client has sent HTTP/2's preface before.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from mesh_listening import Reason, RequestRoom
from mesh_listening.acceptors._frames import PREFACE, Frames
from mesh_listening.acceptors._receiving import MOST_UNASKED_BYTES, Receiving

_FROM_SERVER = 0x80
_MOST = 100_000


class _Owner:
    def __init__(self) -> None:
        self.ended: list[Reason] = []
        self.written = 0

    def holder(self) -> str:
        return "one"

    def write_to_client(self, data: bytes, /) -> None:
        self.written += len(data)

    def end_receiving(self, reason: Reason, /) -> None:
        self.ended.append(reason)


def _never(_seconds: float, _function: Callable[[], None]) -> None:
    """Look never: what does not come gives way at the end, when all is closed."""


def check(data: bytes) -> None:
    """A client's bytes all go on, the server's but for what is held back, and nothing stays."""
    room = RequestRoom(max_bytes=_MOST, max_holder_bytes=_MOST, later=_never)
    room.hold("another", 1)
    owner = _Owner()
    receiving = Receiving(room, owner)
    receiving.from_client(PREFACE)
    came = went = at = 0
    while at < len(data):
        size = data[at] % _FROM_SERVER
        piece = data[at + 1 : at + 1 + size]
        if data[at] < _FROM_SERVER:
            assert receiving.from_client(piece) == piece
        else:
            came += len(piece)
            went += len(receiving.from_server(piece))
        at += 1 + size
        assert room.bytes_of("one") <= _MOST
        assert room.begun_bytes <= len(data) + MOST_UNASKED_BYTES
    assert went + owner.written <= came
    assert len(owner.ended) <= 1
    receiving.close()
    assert (room.bytes_of("one"), room.begun_bytes, room.waiting) == (0, 0, 0)
    walked = list(Frames().walk(data))
    assert all(piece.start <= piece.end <= len(data) for piece in walked)


def originals() -> Iterator[bytes]:
    """Requests of a client, small and large ones, and what a server says meanwhile."""
    opened = _frame(4, 0, 0, b"") + _frame(1, 4, 1, b"\x83\x86")
    small = _frame(0, 0, 1, struct.pack(">BI", 0, 20) + bytes(20))
    large = _frame(0, 0, 1, struct.pack(">BI", 0, 70_000) + bytes(90))
    padded = _frame(0, 8, 1, b"\x04" + struct.pack(">BI", 1, 3) + b"abc" + bytes(4))
    room = _frame(8, 0, 1, struct.pack(">I", 70_000))
    response = _frame(1, 4, 1, b"\x88") + _frame(0, 0, 1, bytes(30)) + _frame(1, 5, 1, b"\x88")
    yield _pieces(opened + small) + _pieces(response, _FROM_SERVER)
    yield _pieces(opened + large) + _pieces(room, _FROM_SERVER) + _pieces(_frame(0, 1, 1, b"x"))
    yield _pieces(opened + padded + small[:7]) + _pieces(room[:5], _FROM_SERVER)
    yield _pieces(opened + large + _frame(3, 0, 1, bytes(4))) + _pieces(room * 2, _FROM_SERVER)
    yield _pieces(opened + _frame(1, 5, 3, b"\x83") + _frame(6, 0, 0, bytes(8)))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">BHBBI", 0, len(payload), kind, flags, stream) + payload


def _pieces(data: bytes, side: int = 0) -> bytes:
    cuts = [data[at : at + 100] for at in range(0, len(data), 100)]
    return b"".join(bytes([side | len(cut)]) + cut for cut in cuts)
