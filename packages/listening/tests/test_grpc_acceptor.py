"""gRPC behind an acceptor, on TCP and on Unix sockets, with and without TLS."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from callers import (
    HTTP2_HELLO,
    BytesContext,
    BytesHandler,
    BytesMethod,
    Pki,
    served_by_grpc,
    unhurried,
    who_am_i,
)
from mesh_listening import (
    GRPC_LIMITS,
    UNIX_LIMITS,
    AllowedPeers,
    Reason,
    credentials_of,
    format_address,
    grpc_acceptor,
    listening_at,
    listening_on,
)
from mesh_listening.acceptors._accepted_peers import by_inner_address
from mesh_listening.acceptors._inside import Loopback
from mesh_testkit import all_closed, idle_connections, some_closed


async def test_the_real_peer_of_a_call_is_known() -> None:
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS):
            peer = await who_am_i(format_address(sockets[0]))
    assert "address='ipv4:127.0.0.1:" in peer
    assert "encrypted=False" in peer


async def test_the_process_of_a_call_on_a_unix_socket_is_known(socket_path: Path) -> None:
    with listening_at(socket_path) as listening:
        async with served_by_grpc([listening], UNIX_LIMITS, allowed=AllowedPeers()):
            peer = await who_am_i(f"unix:{socket_path}")
    assert f"PeerCredentials(pid={os.getpid()}, uid={os.geteuid()}, gid={os.getegid()}," in peer


async def test_the_port_inside_refuses_calls_that_did_not_come_through_the_acceptor() -> None:
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS, on_loopback=True) as served:
            host, port = served.port
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await who_am_i(f"{host}:{port}")
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_large_messages_pass_both_ways_and_nothing_is_known_afterwards(
    socket_path: Path,
) -> None:
    large = os.urandom(3_000_000)
    with listening_at(socket_path) as listening:
        async with served_by_grpc([listening], UNIX_LIMITS) as served:
            async with grpc.aio.insecure_channel(f"unix:{socket_path}") as channel:
                call = channel.stream_stream("/test.Who/Echo", None, None)(None)
                for _ in range(3):
                    await call.write(large)
                    assert await call.read() == large
                await call.done_writing()
                assert not isinstance(await call.read(), bytes)  # gRPC's EOF
                del call  # which would keep the connection
            await served.acceptor.port.wait_gone()
    assert not by_inner_address


@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_a_thousand_silent_connections_do_not_keep_another_from_being_served(
    socket_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    limits = unhurried(GRPC_LIMITS._replace(port=2000, peer=100))
    with contextlib.ExitStack() as stack:
        address: str | Path
        if kind == "tcp":
            sockets = stack.enter_context(listening_on("127.0.0.1", 0))
            address = target = format_address(sockets[0])
        else:
            sockets = [stack.enter_context(listening_at(socket_path))]
            address, target = socket_path, f"unix:{socket_path}"
        async with served_by_grpc(sockets, limits) as served:
            held = stack.enter_context(idle_connections(address, 1000))
            await some_closed(held, 900)
            assert served.acceptor.port.refused == {Reason.PEER_FULL: 900}
            script = (
                "import sys, asyncio\n"
                "sys.path.insert(0, sys.argv[1])\n"
                "from callers import BytesContext, BytesHandler, BytesMethod, who_am_i\n"
                "print(asyncio.run(who_am_i(sys.argv[2])))"
            )
            if kind == "unix":  # Another process is another peer.
                here = str(Path(__file__).parent / "support")
                peer = await output_of(script, here, target)
                assert "AcceptedPeer(address='unix:'" in peer
            else:
                reader, writer = await asyncio.open_connection(
                    *sockets[0].getsockname(), local_addr=("127.0.0.2", 0)
                )
                writer.write(HTTP2_HELLO)
                assert await reader.read(9)
                writer.close()
                await writer.wait_closed()
    assert [vars(r)["reason"] for r in caplog.records if r.message == "refusing connections"] == [
        "too many of one peer"
    ]


async def output_of(script: str, *arguments: str) -> str:
    import sys

    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    assert child.returncode == 0
    return out.decode()


@pytest.mark.parametrize(
    ("said", "what"), [(b"P", "half a preface"), (HTTP2_HELLO, "a connection without a stream")]
)
async def test_grpc_ends_connections_that_send_only_a_beginning(said: bytes, what: str) -> None:
    del what
    limits = unhurried(GRPC_LIMITS)._replace(handshake_s=0.3, idle_s=0.3)
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, limits) as served:
            held = []
            for _ in range(20):
                each = socket.create_connection(sockets[0].getsockname())
                each.sendall(said)
                held.append(each)
            await all_closed(held)
            for each in held:
                each.close()
            await served.acceptor.port.wait_gone()


@pytest.mark.parametrize("who", ["client", "server inside", "client of a server that has closed"])
async def test_a_connection_of_which_one_side_reads_nothing_is_ended(
    caplog: pytest.LogCaptureFixture, who: str
) -> None:
    limits = unhurried(GRPC_LIMITS)._replace(stalled_s=0.3)
    loop = asyncio.get_running_loop()
    data = b"\0\x40\0" + bytes(5) + b"\1" + bytes(16384)  # a DATA frame of stream 1
    # gRPC would end a connection itself, for pings or for silence: the server inside is ours.
    with listening_on("127.0.0.1", 0) as sockets, socket.create_server(("127.0.0.1", 0)) as inside:
        inside.setblocking(False)
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of what it accepts
        async with grpc_acceptor(sockets, name="test", limits=limits) as acceptor:
            with acceptor.forwarding(Loopback(*inside.getsockname())), socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.setblocking(False)
                await loop.sock_connect(client, sockets[0].getsockname())
                await loop.sock_sendall(client, HTTP2_HELLO)
                server, _ = await loop.sock_accept(inside)
                with server:
                    if who == "client of a server that has closed":
                        await loop.sock_sendall(server, data * 3)  # less than makes it wait
                        server.close()
                    else:
                        sender = server if who == "client" else client
                        with contextlib.suppress(ConnectionError):
                            while True:
                                await loop.sock_sendall(sender, data)
                    await acceptor.port.wait_gone()
                assert acceptor.port.refused == {Reason.STALLED: 1}
    begins = [r for r in caplog.records if r.message == "refusing connections"]
    assert [vars(r)["reason"] for r in begins] == ["took nothing of what was sent"]


async def test_the_servers_last_message_reaches_the_client_though_the_acceptor_closes() -> None:
    loop = asyncio.get_running_loop()
    with listening_on("127.0.0.1", 0) as sockets, socket.create_server(("127.0.0.1", 0)) as inside:
        inside.setblocking(False)
        async with grpc_acceptor(sockets, name="test", limits=GRPC_LIMITS) as acceptor:
            with acceptor.forwarding(Loopback(*inside.getsockname())):
                reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
                writer.write(b"hello")
                served, _ = await loop.sock_accept(inside)
                assert await loop.sock_recv(served, 5) == b"hello"
            # From here to the acceptor's end nothing else runs that could read it.
            served.sendall(b"last words")
            served.close()
        assert await reader.read() == b"last words"
        writer.close()
        await writer.wait_closed()


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


class EveryKind(BytesHandler):
    """One method of each kind, asynchronous and not; each says back what it was sent."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> BytesMethod | None:
        async def unary(request: bytes, _context: BytesContext) -> bytes:
            return request

        def unary_in_thread(request: bytes, _context: BytesContext) -> bytes:
            return request

        async def many(request: bytes, _context: BytesContext) -> AsyncIterator[bytes]:
            yield request

        async def of_many(requests: AsyncIterator[bytes], _context: BytesContext) -> bytes:
            return b"".join([request async for request in requests])

        async def many_of_many(
            requests: AsyncIterator[bytes], _context: BytesContext
        ) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request

        return {
            "/k/unary": grpc.unary_unary_rpc_method_handler(unary),
            "/k/thread": grpc.unary_unary_rpc_method_handler(unary_in_thread),
            "/k/many": grpc.unary_stream_rpc_method_handler(many),
            "/k/of_many": grpc.stream_unary_rpc_method_handler(of_many),
            "/k/many_of_many": grpc.stream_stream_rpc_method_handler(many_of_many),
        }.get(handler_call_details.method)


async def every_kind(channel: grpc.aio.Channel, *, length: int) -> list[bytes | grpc.StatusCode]:
    """What calls of each kind come to."""
    big = b"x" * length

    async def outcome(call: Awaitable[bytes]) -> bytes | grpc.StatusCode:
        try:
            return b"same" if await call == big else b"other"
        except grpc.aio.AioRpcError as error:
            code: grpc.StatusCode = error.code()
            return code

    async def read(call: AsyncIterable[bytes]) -> bytes:
        return b"".join([part async for part in call])

    def pieces() -> Iterator[bytes]:
        return iter([big[: length // 3], big[length // 3 :]])

    return [
        await outcome(channel.unary_unary("/k/unary", None, None)(big)),
        await outcome(channel.unary_unary("/k/thread", None, None)(big)),
        await outcome(read(channel.unary_stream("/k/many", None, None)(big))),
        await outcome(channel.stream_unary("/k/of_many", None, None)(pieces())),
        await outcome(read(channel.stream_stream("/k/many_of_many", None, None)(pieces()))),
    ]


@pytest.mark.parametrize("kind", ["plaintext", "TLS"])
async def test_calls_of_every_kind_pass_the_acceptor_and_are_refused_beside_it(
    pki: Pki, kind: str
) -> None:
    tls = kind == "TLS"
    context = pki.server_context if tls else None
    with listening_on("127.0.0.1", 0) as sockets:
        address = format_address(sockets[0])
        async with served_by_grpc(
            sockets, GRPC_LIMITS, context=context, handlers=[EveryKind()], on_loopback=True
        ) as served:
            host, port = served.port
            async with grpc.aio.insecure_channel(f"{host}:{port}") as beside:
                refused = await every_kind(beside, length=30)
            assert refused[:3] == [grpc.StatusCode.UNAUTHENTICATED] * 3
            # Who is refused while it still sends hears of its failed write at times instead.
            either = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL}
            assert set(refused[3:]) <= either
            async with (
                pki.channel(address) if tls else grpc.aio.insecure_channel(address) as through
            ):
                # More than fits anywhere on the way.
                assert await every_kind(through, length=3_000_000) == [b"same"] * 5


async def test_a_handshake_that_takes_too_long_is_ended_and_logged_once(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    limits = unhurried(GRPC_LIMITS)._replace(handshake_s=0.2)
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, limits, context=pki.server_context) as served:
            held = []
            for _ in range(20):
                each = socket.create_connection(sockets[0].getsockname())
                each.sendall(b"\x16\x03\x01\x02\x00")  # the head of a ClientHello
                held.append(each)
            await all_closed(held)
            for each in held:
                each.close()
            await served.acceptor.port.wait_gone()
            assert served.acceptor.port.refused == {Reason.NO_HANDSHAKE: 20}
    begins = [r for r in caplog.records if r.message == "refusing connections"]
    assert [vars(r)["reason"] for r in begins] == ["handshake took too long"]


async def test_supplementary_groups_count_as_the_primary_one_does(socket_path: Path) -> None:
    """A process whose primary group is not allowed, but one of its others is, and the reverse."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a process groups of our choice")
    script = (
        "import os, socket, sys\n"
        "os.setgroups([int(g) for g in sys.argv[2].split(',')]); os.setgid(int(sys.argv[3]))\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
    )
    many = ",".join(map(str, range(5000, 5400)))
    loop = asyncio.get_running_loop()
    with listening_at(socket_path) as listening:
        for groups, gid, allowed, right in [
            ("4001,4002", 4000, 4002, True),
            ("4001,4002", 4000, 4000, True),
            ("4001,4002", 4000, 4003, False),
            (many, 4000, 5399, True),
        ]:
            child = await asyncio.create_subprocess_exec(
                "python3", "-c", script, str(socket_path), groups, str(gid)
            )
            accepted, _ = await loop.sock_accept(listening)
            with accepted:
                peer = credentials_of(accepted)
            assert peer.gid == gid
            refusal = AllowedPeers(gids=frozenset({allowed})).refusal(peer)
            assert (refusal is None) is right
            assert await child.wait() == 0
