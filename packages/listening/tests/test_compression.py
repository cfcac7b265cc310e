"""Compressed messages are refused before they are unpacked, by each kind of method."""

from __future__ import annotations

import grpc
import pytest

from callers import served_by_grpc, unhurried
from mesh_listening import GRPC_LIMITS, format_address, listening_on
from mesh_testkit.http2 import connected, gzip_bomb

UNPACKED = 3_000_000
"""Less than a server of the test takes, so that nothing but the compression is refused."""


@pytest.mark.parametrize("method", ["AmI", "Echo"])
async def test_a_compressed_request_is_refused_and_reaches_no_handler(method: str) -> None:
    bomb = gzip_bomb(UNPACKED)
    assert len(bomb) < UNPACKED / 500
    with listening_on("127.0.0.1", 0) as sockets:
        async with (
            served_by_grpc(sockets, unhurried(GRPC_LIMITS)),
            connected(format_address(sockets[0]), window=1 << 20) as client,
        ):
            stream = await client.begin(f"/test.Who/{method}", {"grpc-encoding": "gzip"})
            await client.send_as_let(stream, bomb)
            await client.answered.wait()
    status = client.headers[stream]
    assert status["grpc-status"] == str(grpc.StatusCode.UNIMPLEMENTED.value[0])
