from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor._stand_in import answer, socket_number, stand_in

STATS_REQUEST = (4).to_bytes(8, "big") + b"\x0a\x02\x1a\x00"
TERMINATE_REQUEST = (4).to_bytes(8, "big") + b"\x0a\x02\x2a\x00"


def test_only_questions_are_answered() -> None:
    assert answer(STATS_REQUEST) == (4).to_bytes(8, "big") + b"\x12\x02\x1a\x00"
    assert answer(TERMINATE_REQUEST) is None


@given(st.binary())
def test_any_datagram_can_be_read(datagram: bytes) -> None:
    answer(datagram)


def test_sockets_are_numbered_as_envoy_does() -> None:
    assert socket_number(211342511, 1) == 2113425111
    assert socket_number(221609710, 0) == 18446744071630681420
    assert socket_number(221609710, 1) == 18446744071630681421


async def test_a_child_gets_its_answer(socket_dir: Path) -> None:
    prefix = socket_dir / "id"
    assert stand_in(prefix, 1, 0) is None
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as parent,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as child,
    ):
        parent.bind(f"{prefix}_parent_10")
        child.bind(f"{prefix}_child_11")
        child.setblocking(False)
        parent.close()
        substitute = stand_in(prefix, 1, 0)
        assert substitute is not None
        substitute.open()
        try:
            child.sendto(b"", f"{prefix}_parent_10")
            child.sendto(STATS_REQUEST, f"{prefix}_parent_10")
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(child, 100) == answer(STATS_REQUEST)
        finally:
            substitute.close()
    for path in socket_dir.iterdir():
        path.unlink()
