"""Answering in place of an Envoy that is gone."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from envoy_supervisor.handover._dead_parent_responder import (
    DeadParentResponder,
    no_sockets,
    respond,
)
from envoy_supervisor.handover._hot_restart_files import HotRestartSockets, hot_restart_sockets
from envoy_supervisor.handover._messages import (
    NO_SOCKET,
    Request,
    Subject,
    admin_is_shut_down,
    ask_for_socket,
    no_statistics,
    read_passed_socket,
)
from envoy_supervisor.handover._retained_sockets import SocketName

STATS_REQUEST = (4).to_bytes(8, "big") + b"\x0a\x02\x1a\x00"
DRAIN_REQUEST = (4).to_bytes(8, "big") + b"\x0a\x02\x22\x00"
TERMINATE_REQUEST = (4).to_bytes(8, "big") + b"\x0a\x02\x2a\x00"


def test_questions_are_answered_and_orders_are_not() -> None:
    said = {
        subject: respond(Request(subject=subject), pass_socket=no_sockets, since=7)
        for subject in Subject
    }
    assert {subject for subject, reply in said.items() if reply is None} == {
        Subject.DRAIN_LISTENERS,
        Subject.TERMINATE,
    }
    stats, admin = said[Subject.STATS], said[Subject.SHUTDOWN_ADMIN]
    assert stats is not None
    assert stats.datagram == no_statistics()
    assert admin is not None
    assert admin.datagram == admin_is_shut_down(started=7)


def test_a_retained_socket_goes_with_the_answer() -> None:
    def pass_socket(name: SocketName) -> int | None:
        return 9 if name == SocketName(address="tcp://127.0.0.1:80", worker=1) else None

    def passed(
        address: str, worker: int, *, other_network_namespace: bool = False
    ) -> tuple[int | None, bool]:
        request = Request(
            subject=Subject.PASS_LISTEN_SOCKET,
            address=address,
            worker=worker,
            other_network_namespace=other_network_namespace,
        )
        reply = respond(request, pass_socket=pass_socket, since=0)
        assert reply is not None
        return read_passed_socket(reply.datagram), bool(reply.control)

    assert passed("tcp://127.0.0.1:80", 1) == (9, True)
    assert passed("tcp://127.0.0.1:80", 0) == (NO_SOCKET, False)
    # The same address in another network namespace is another address.
    assert passed("tcp://127.0.0.1:80", 1, other_network_namespace=True) == (NO_SOCKET, False)


async def test_a_child_gets_its_answers_until_it_ends_its_parent(socket_dir: Path) -> None:
    file = socket_dir / "id"
    assert hot_restart_sockets(file, 0) is None
    file.write_text("1")
    at = hot_restart_sockets(file, 0)
    assert at == HotRestartSockets(
        parent=socket_dir / "id_parent_10", child=socket_dir / "id_child_11"
    )
    serves = asyncio.Event()
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as retained,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as child,
    ):
        dead.bind(str(at.parent))
        dead.close()
        child.bind(str(at.child))
        child.setblocking(False)
        responder = DeadParentResponder(
            at, pass_socket=lambda _: retained.fileno(), on_child_serves=serves.set
        )
        responder.open()
        try:
            child.sendto(b"", str(at.parent))
            child.sendto(STATS_REQUEST, str(at.parent))
            assert await loop.sock_recv(child, 100) == no_statistics()
            child.sendto(ask_for_socket("tcp://127.0.0.1:80", 0), str(at.parent))
            await readable(child)
            datagram, passed, _, _ = socket.recv_fds(child, 100, 1)
            assert read_passed_socket(datagram) == retained.fileno()
            assert os.fstat(passed[0]).st_ino == os.fstat(retained.fileno()).st_ino
            os.close(passed[0])
            child.sendto(DRAIN_REQUEST, str(at.parent))
            await serves.wait()
            child.sendto(TERMINATE_REQUEST, str(at.parent))
            with pytest.raises(ConnectionRefusedError):
                while True:
                    child.sendto(TERMINATE_REQUEST, str(at.parent))
                    await asyncio.sleep(0)
        finally:
            responder.close()
    for path in socket_dir.iterdir():
        path.unlink()


async def test_a_child_that_may_have_asked_in_vain_is_answered_unasked(socket_dir: Path) -> None:
    at = HotRestartSockets(parent=socket_dir / "id_parent_10", child=socket_dir / "id_child_11")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as child:
        child.bind(str(at.child))
        child.setblocking(False)
        responder = DeadParentResponder(at, child_serves_already=True)
        responder.open()
        try:
            assert child.recv(100) == no_statistics()
            assert at.parent.stat().st_mode & 0o777 == 0o600
        finally:
            responder.close()
    at.child.unlink()
    responder.open()  # though no child is there
    responder.close()
    assert {path.name for path in socket_dir.iterdir()} == {at.parent.name}
    at.parent.unlink()


async def readable(reader: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(reader, arrived.set)
    await arrived.wait()
    loop.remove_reader(reader)
