"""The accept loop: how many connections, how long, and the log of refusals."""

import asyncio
import encodings.idna  # noqa: F401 - no look-up may load it when there are no files
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator
from itertools import count, islice
from pathlib import Path

import pytest

from callers import Echo, unhurried
from mesh_listening import (
    HTTP_LIMITS,
    ConnectionLimits,
    Reason,
    accepting,
    listening_at,
    listening_on,
    out_of_files,
)
from mesh_listening.limits._open_files import OpenFiles
from mesh_testkit import all_closed, idle_connections, some_closed, until

AGAIN = "file descriptors are free again"


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, object]]:
    return [vars(r) for r in caplog.records if r.message == message]


async def echoed(address: tuple[str, int], *, source: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
    writer.write(b"hello")
    answer = await reader.readexactly(5)
    writer.close()
    await writer.wait_closed()
    return answer


LIMITS = unhurried(ConnectionLimits(port=40, peer=10))


async def test_one_peer_is_held_to_its_limit_and_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with listening_on("127.0.0.1", 0) as sockets:
        address = sockets[0].getsockname()
        async with accepting(sockets, Echo, name="test", limits=LIMITS) as port:
            with idle_connections(address, 1000) as held:
                assert await echoed(address, source="127.0.0.2") == b"hello"
                await some_closed(held, 990)
                assert port.open_connections <= 11
                (begin,) = lines(caplog, "refusing connections")
                assert begin["reason"] == "too many of one peer"
                assert begin["peer"] == "127.0.0.1"
            assert port.refused == {Reason.PEER_FULL: 990}
    (end,) = lines(caplog, "no longer refusing connections")
    assert (end["refused"], end["peers"]) == (990, "127.0.0.1 (990)")


async def test_refusing_ends_in_the_log_by_itself(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mesh_listening.acceptors._refusal_log._QUIET_S", 0.05)
    with listening_on("127.0.0.1", 0) as sockets:
        address = sockets[0].getsockname()
        async with accepting(sockets, Echo, name="test", limits=LIMITS):
            # One too many: of two, the second may come after the end of the first.
            with idle_connections(address, 11) as held:
                await some_closed(held, 1)
                await until(
                    lambda: bool(lines(caplog, "no longer refusing connections")),
                    what="the end of refusing",
                )
    assert len(lines(caplog, "refusing connections")) == 1
    assert len(lines(caplog, "no longer refusing connections")) == 1


async def test_a_full_port_refuses_further_peers_and_takes_them_when_there_is_room() -> None:
    with listening_on("127.0.0.1", 0) as sockets:
        address = sockets[0].getsockname()
        limits = LIMITS._replace(port=3, peer=1)
        async with accepting(sockets, Echo, name="test", limits=limits) as port:
            held = [
                socket.create_connection(address, source_address=(f"127.0.1.{n}", 0))
                for n in range(1, 5)
            ]
            await some_closed(held, 1)
            assert port.refused == {Reason.PORT_FULL: 1}
            for each in held:
                each.close()
            await port.wait_gone()
            assert await echoed(address) == b"hello"


async def test_connections_that_send_nothing_are_closed_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = LIMITS._replace(port=200, peer=100, first_byte_s=0.1)
    with listening_on("127.0.0.1", 0) as sockets:
        address = sockets[0].getsockname()
        async with accepting(sockets, Echo, name="test", limits=limits) as port:
            with idle_connections(address, 50) as held:
                await all_closed(held)
            assert port.refused == {Reason.NO_FIRST_BYTE: 50}
            assert port.open_connections == 0
    (begin,) = lines(caplog, "refusing connections")
    assert (begin["reason"], begin["levelno"]) == ("said nothing", logging.WARNING)


async def test_processes_on_a_unix_socket_are_held_to_their_limit(
    socket_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with listening_at(socket_path) as listening:
        async with accepting([listening], Echo, name="test", limits=LIMITS):
            with idle_connections(socket_path, 30) as held:
                await some_closed(held, 20)
    (end,) = lines(caplog, "no longer refusing connections")
    assert end["peers"] == f"pid {os.getpid()} uid {os.geteuid()} (20)"


@pytest.fixture
async def few_files() -> AsyncIterator[int]:
    """A process that may open twelve files more than it and its loop have.

    Those with high numbers, which it may have from its parent, leave free ones below them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
    limit = next(islice((number for number in count() if number not in taken), 12, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("limits", "level"),
    [
        pytest.param(HTTP_LIMITS, logging.DEBUG, id="default"),
        pytest.param(ConnectionLimits(port=3000, peer=3000), logging.INFO, id="configured"),
    ],
)
@pytest.mark.usefixtures("few_files")
async def test_fewer_connections_than_the_default_are_logged_at_debug_level_only(
    limits: ConnectionLimits, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with listening_on("127.0.0.1", 0) as sockets:
        async with accepting(sockets, Echo, name="test", limits=limits) as port:
            assert port.limits.port < limits.port
    message = "the limit of open files allows fewer connections than are configured"
    assert [each.levelno for each in caplog.records if each.getMessage() == message] == [level]


@pytest.mark.usefixtures("few_files")
async def test_without_file_descriptors_the_port_refuses_and_goes_on_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the rest of the program had taken what was left for it.
    monkeypatch.setattr(ConnectionLimits, "within_open_files", lambda self, _: self)
    limits = unhurried(ConnectionLimits(port=1000, peer=1000))
    with listening_on("127.0.0.1", 0) as sockets:
        address = sockets[0].getsockname()
        async with accepting(sockets, Echo, name="test", limits=limits) as port:
            taken = []
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            os.close(taken.pop())
            with socket.create_connection(address) as waiting:
                before = os.times()
                await all_closed([waiting])
                assert os.times().user - before.user < 1
            for each in taken:
                os.close(each)
            assert await echoed(address) == b"hello"
            assert port.refused[Reason.OUT_OF_FILES] >= 1
            await until(lambda: bool(lines(caplog, AGAIN)), what="end")
    assert [line["reason"] for line in lines(caplog, "refusing connections")] == [
        "out of file descriptors"
    ]


@pytest.mark.usefixtures("few_files")
async def test_a_port_of_probes_serves_some_when_there_are_no_files_and_the_process_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConnectionLimits, "within_open_files", lambda self, _: self)
    limits = unhurried(ConnectionLimits(port=1000, peer=1000))
    assert out_of_files() is None
    with listening_on("127.0.0.1", 0) as sockets:
        address = sockets[0].getsockname()
        opened = accepting(sockets, Echo, name="test", limits=limits, served_when_out=2)
        async with opened:
            probe = socket.socket()
            taken = []
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            with probe:
                probe.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(probe, address)
                await loop.sock_sendall(probe, b"hello")
                assert await loop.sock_recv(probe, 100) == b"hello"
                fault = out_of_files()
                assert fault is not None
                assert fault.startswith("out of file descriptors for ")
            for each in taken:
                os.close(each)
            await until(lambda: bool(lines(caplog, AGAIN)), what="end")
            assert out_of_files() is None
            assert await echoed(address) == b"hello"
    begun, ended = lines(caplog, "out of file descriptors"), lines(caplog, AGAIN)
    assert len(begun) == len(ended) > 0


@pytest.mark.usefixtures("few_files")
async def test_several_ports_that_are_full_leave_files_for_the_program_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = OpenFiles()
    grpc = sum(files.hold(3) for _ in range(allowed))
    assert grpc * 3 <= allowed * 3 / 4
    probes = sum(files.hold(1) for _ in range(allowed))
    assert probes > 0
    assert grpc * 3 + probes <= allowed * 7 / 8
    for _ in range(grpc):
        files.release(3)
    assert files.hold(3)
    assert not caplog.records


def test_limits_leave_files_for_the_program(few_files: int) -> None:
    limits = ConnectionLimits(port=10_000, peer=5_000).within_open_files(3)
    assert limits.port * 3 <= few_files * 3 // 4
    assert limits.peer == limits.port // 2
