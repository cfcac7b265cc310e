"""A port inside, on loopback, which any process of the machine can connect to."""

import asyncio
import contextlib
import resource
import subprocess
import sys

import pytest

from callers import HTTP2_HELLO, served_by_grpc, unhurried, who_am_i
from mesh_listening import GRPC_LIMITS, UNIX_LIMITS, Reason, format_address, listening_on
from mesh_listening.grpc_server import options
from mesh_testkit import idle_connections

FOREIGN = 1000


@pytest.mark.parametrize("says", [b"", HTTP2_HELLO], ids=["silent", "speaks HTTP/2"])
async def test_a_thousand_foreign_connections_take_no_room_from_those_through_the_acceptor(
    says: bytes,
) -> None:
    limits = unhurried(UNIX_LIMITS._replace(port=60, peer=30))
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, limits, on_loopback=True) as served:
            with idle_connections(served.port, FOREIGN) as held:
                for each in held:
                    each.sendall(says)
                # As many as the acceptor lets one peer have, and all at once.
                async with asyncio.TaskGroup() as group:
                    answers = [
                        group.create_task(who_am_i(format_address(sockets[0])))
                        for _ in range(limits.peer)
                    ]
            assert all("ipv4:127.0.0.1:" in each.result() for each in answers)
            assert served.acceptor.port.refused == {}


async def test_foreign_connections_are_limited_and_an_acceptor_without_room_logs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mesh_listening.limits._limits._FOREIGN_CONNECTIONS", 20)
    limits = unhurried(GRPC_LIMITS._replace(port=20, peer=10))
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, limits, on_loopback=True) as served:
            with idle_connections(served.port, 100) as held:
                for each in held:
                    with contextlib.suppress(ConnectionError):
                        each.sendall(HTTP2_HELLO)
                loop = asyncio.get_running_loop()
                served_ones = 0
                for each in held:
                    each.setblocking(False)
                    with contextlib.suppress(ConnectionError):
                        served_ones += bool(await loop.sock_recv(each, 9))
                assert served_ones == 40
                with idle_connections(sockets[0].getsockname(), 1) as (through,):
                    through.sendall(HTTP2_HELLO)
                    through.setblocking(False)
                    with contextlib.suppress(ConnectionError):
                        assert await loop.sock_recv(through, 9) == b""
                await served.acceptor.port.wait_gone()
            assert served.acceptor.port.refused == {Reason.NOT_FORWARDED: 1}
    begins = [vars(r) for r in caplog.records if r.message == "refusing connections"]
    assert [line["reason"] for line in begins] == ["could not be passed on"]


async def test_silent_foreign_connections_are_ended_after_the_time_of_a_handshake() -> None:
    limits = unhurried(GRPC_LIMITS)._replace(handshake_s=0.3)
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, limits, on_loopback=True) as served:
            with idle_connections(served.port, 50) as held:
                loop = asyncio.get_running_loop()
                for each in held:
                    each.setblocking(False)
                    with contextlib.suppress(ConnectionError):
                        while await loop.sock_recv(each, 65536):
                            pass


def test_connections_inside_are_bounded_by_the_open_files_limit() -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))\n"
        "from mesh_listening import GRPC_LIMITS\n"
        "from mesh_listening.grpc_server import options\n"
        "print(dict(options(GRPC_LIMITS))['grpc.max_allowed_incoming_connections'])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    port, foreign = 1024 * 3 // 4 // 3, 1024 // 8
    assert int(ran.stdout) == port + foreign
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= 40_000:
        most = dict(options(UNIX_LIMITS))["grpc.max_allowed_incoming_connections"]
        assert most == UNIX_LIMITS.port + 4096
