"""Processes that are not allowed: each is refused and counted, and logged once a user."""

import asyncio
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from mesh_listening import UNIX_LIMITS, AllowedPeers, Reason, grpc_acceptor, listening_at
from mesh_listening.acceptors._inside import Loopback

TIMES = 3
CONNECT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
sys.exit(0 if s.recv(1) == b"" else 1)
"""


def cannot_tell() -> Collection[int]:
    raise LookupError("no envoy yet")


@pytest.mark.parametrize(
    ("pids", "said"),
    [
        (lambda: {1}, "peer refused"),
        (cannot_tell, "cannot tell whether a peer is allowed, refusing it"),
    ],
    ids=["others", "cannot tell"],
)
async def test_refused_processes_of_one_user_are_logged_once(
    socket_path: Path,
    caplog: pytest.LogCaptureFixture,
    pids: Callable[[], Collection[int]],
    said: str,
) -> None:
    allowed = AllowedPeers(pids=pids)
    with listening_at(socket_path) as listening:
        async with grpc_acceptor(
            [listening], name="test", limits=UNIX_LIMITS, allowed=allowed
        ) as acceptor:
            with acceptor.forwarding(Loopback("127.0.0.1", 9)):
                for _ in range(TIMES):
                    child = await asyncio.create_subprocess_exec(
                        sys.executable, "-c", CONNECT, str(socket_path)
                    )
                    assert await child.wait() == 0
            assert acceptor.port.refused == {Reason.NOT_ALLOWED: TIMES}
    assert [record.message for record in caplog.records] == [said]
    assert vars(caplog.records[0]).get("uid", os.geteuid()) == os.geteuid()
