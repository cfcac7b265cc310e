"""A control plane is asked to compress nothing, and a compressed answer is not unpacked."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from mesh_testkit.http2 import gzip_bomb, lying_server
from xds_proxy.upstream._connecting import channel_options

UNPACKED = 30_000_000


async def test_a_compressed_answer_is_refused() -> None:
    options = channel_options(
        authority="a", tls_name="a", max_message_bytes=2 * UNPACKED, keepalive_s=30.0
    )
    async with (
        lying_server(gzip_bomb(UNPACKED), {"grpc-encoding": "gzip"}) as server,
        grpc.aio.insecure_channel(server.address, options=options) as channel,
    ):
        call = channel.unary_stream("/a/B", None, None)(b"")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert [asked["grpc-accept-encoding"] for asked in server.asked] == ["identity"]
