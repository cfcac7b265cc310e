"""Ending the connection of a client, by what gRPC knows of it, over each transport."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest

from callers import BytesContext, BytesHandler, BytesMethod, Pki, served_by_grpc, who_am_i
from mesh_listening import (
    GRPC_LIMITS,
    Reason,
    disconnect,
    format_address,
    listening_at,
    listening_on,
    sent_bytes,
)
from mesh_testkit import until


class Ends(BytesHandler):
    """A stream that says hello, and whose connection is then ended; notes what that returned."""

    def __init__(self) -> None:
        self.ended: list[bool] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> BytesMethod | None:
        async def serve(_requests: object, context: BytesContext) -> None:
            peer = context.peer()
            before = sent_bytes(peer)
            await context.write(b"hello" * 20_000)
            await until(lambda: sent_bytes(peer) > before + 100_000, what="the bytes to be sent")
            self.ended.append(disconnect(peer))
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.ended.append(disconnect(peer))

        if handler_call_details.method != "/test.Ends/It":
            return None
        return grpc.stream_stream_rpc_method_handler(serve)


@pytest.mark.parametrize("kind", ["plaintext", "TLS", "unix"])
async def test_a_disconnected_connection_ends_with_its_own_streams_and_is_counted(
    kind: str, socket_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pki, ends = Pki(tmp_path), Ends()
    context: Callable[[], ssl.SSLContext] | None = pki.server_context if kind == "TLS" else None
    options = [("grpc.use_local_subchannel_pool", 1)]
    with contextlib.ExitStack() as stack:
        if kind == "unix":
            sockets = [stack.enter_context(listening_at(socket_path))]
            target = f"unix:{socket_path}"
        else:
            sockets = stack.enter_context(listening_on("127.0.0.1", 0))
            target = format_address(sockets[0])
        async with served_by_grpc(sockets, GRPC_LIMITS, context=context, handlers=[ends]) as served:
            channel = pki.channel(target) if context else grpc.aio.insecure_channel(target, options)
            async with channel as through:
                call = through.stream_stream("/test.Ends/It", None, None)(None)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    while await call.read():
                        pass
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                other = pki.channel if context else None
                assert "AcceptedPeer(" in await who_am_i(target, channel=other)
            port = served.acceptor.port
            await port.wait_gone()
            assert port.refused == {Reason.NOT_READ: 1}
    assert ends.ended == [True, False]
    assert caplog.records == []


async def test_a_peer_that_no_acceptor_knows_is_not_disconnected_and_has_taken_nothing() -> None:
    assert sent_bytes("unix:") == 0
    assert not disconnect("ipv4:127.0.0.1:1")
    assert not disconnect("unix:")
