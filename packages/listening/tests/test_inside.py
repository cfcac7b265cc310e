"""The Unix socket inside, which only the acceptor reaches."""

import asyncio
import logging
import socket
from pathlib import Path

import grpc
import pytest

from callers import served_by_grpc, who_am_i
from mesh_listening import GRPC_LIMITS, format_address, listening_on
from mesh_listening.acceptors._inside import Loopback, Unnamed
from mesh_testkit import until

DIRECTORIES = "mesh_listening.acceptors._inside._DIRECTORIES"


async def test_the_socket_inside_has_no_name_that_a_process_could_connect_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DIRECTORIES, (str(tmp_path),))
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS) as served:
            assert isinstance(served.inside, Unnamed)
            assert list(tmp_path.iterdir()) == []
            assert "address='ipv4:127.0.0.1:" in await who_am_i(format_address(sockets[0]))


async def test_a_call_that_gets_there_all_the_same_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DIRECTORIES, (str(tmp_path),))
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS):
            # As a process could that may trace this one.
            (file,) = (
                each
                for each in Path("/proc/self/fd").iterdir()
                if each.is_symlink() and str(each.readlink()).startswith(str(tmp_path))
            )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await who_am_i(f"unix:{file}")
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("missing", ["no directory for temporary files", "its path is too long"])
async def test_where_there_can_be_no_such_socket_it_is_a_port_on_loopback(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="mesh_listening")
    directory = tmp_path / ("d" * 120)
    if missing.startswith("its path"):
        directory.mkdir()
    monkeypatch.setattr(DIRECTORIES, (str(directory),))
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS) as served:
            assert isinstance(served.inside, Loopback)
            assert "listens on loopback" in caplog.text
            assert "address='ipv4:127.0.0.1:" in await who_am_i(format_address(sockets[0]))


async def test_a_connection_waits_while_the_servers_queue_is_full(socket_path: Path) -> None:
    socket_path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(socket_path))
        listening.listen(0)
        inside = Unnamed(socket_path)
        socket_path.unlink()
        first, second = inside.bind(), inside.bind()
        with first.socket, second.socket:
            assert first.address != second.address
            await inside.connect(first.socket)
            waiting = asyncio.create_task(inside.connect(second.socket))
            done, _ = await asyncio.wait([waiting], timeout=0.1)
            assert not done
            listening.accept()[0].close()
            await until(waiting.done, what="the connection")
            await waiting
        inside.close()


async def test_after_its_end_nothing_connects_there(socket_path: Path) -> None:
    socket_path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(socket_path))
        listening.listen()
        inside = Unnamed(socket_path)
        inside.try_once()
        inside.close()
        socket_path.unlink()
        with pytest.raises(OSError, match="No such file"):
            inside.try_once()
        with inside.bind().socket as late, pytest.raises(OSError, match="No such file"):
            await inside.connect(late)
