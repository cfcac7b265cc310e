"""A TLS connection encrypts a record at a time, as its buffer never shrinks."""

import asyncio

import pytest

from mesh_listening.acceptors._deadlines import Deadlines
from mesh_listening.acceptors._pipe import End, TlsEnd

RECORD_BYTES = 16384  # RFC 8446, section 5.1


class Taken(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def pause_reading(self) -> None:
        pass


class Alone:
    """A link with one end only."""

    def __init__(self) -> None:
        self.stalls = Deadlines[End](60, lambda _: None)

    def lost(self, end: End, /) -> None:
        del end

    def on_stall(self) -> None:
        pass


@pytest.mark.parametrize("size", [1, RECORD_BYTES, RECORD_BYTES + 1, 1_000_000])
def test_long_data_is_sent_a_record_at_a_time(size: int) -> None:
    pipe, transport = TlsEnd(Alone()), Taken()
    pipe.connection_made(transport)
    data = bytes(n % 251 for n in range(size))
    pipe.write(data)
    assert b"".join(transport.writes) == data
    assert max(map(len, transport.writes)) <= RECORD_BYTES
