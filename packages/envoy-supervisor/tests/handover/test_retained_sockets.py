"""HotRestartSockets that are held beside Envoy, and how Envoy is asked for them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor._json import JSON
from envoy_supervisor.admin._listeners import listening_addresses
from envoy_supervisor.handover._fetch_sockets import fetch_listening_sockets
from envoy_supervisor.handover._hot_restart_files import HotRestartSockets
from envoy_supervisor.handover._messages import NO_SOCKET, passed_socket, read_request
from envoy_supervisor.handover._retained_sockets import RetainedSockets, SocketName
from envoy_supervisor.processes._subprocess import Subprocess, spawn

FIRST = SocketName(address="tcp://127.0.0.1:80", worker=0)
SECOND = SocketName(address="tcp://127.0.0.1:80", worker=1)


def held_of_this_process(*listening: socket.socket) -> RetainedSockets:
    held = RetainedSockets(pid=os.getpid())
    for worker, server in enumerate(listening):
        place = SocketName(address=FIRST.address, worker=worker)
        assert held.add(place, os.dup(server.fileno()), server.fileno())
    return held


def test_workers_that_share_a_socket_are_held_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = held_of_this_process(server, server)
        assert len(held) == 1
        assert held.pass_on(FIRST) == held.pass_on(SECOND)
        held.close()
        assert len(held) == 0
        assert held.pass_on(FIRST) is None


def test_only_what_was_asked_for_stays() -> None:
    local = ("127.0.0.1", 0)
    with socket.create_server(local) as one, socket.create_server(local) as two:
        held = held_of_this_process(one, two)
        assert held.pass_on(SECOND) is not None
        assert held.passed == 1
        held.close_not_passed()
        assert len(held) == 1
        assert held.pass_on(FIRST) is None
        held.close()


def test_what_does_not_listen_is_not_held() -> None:
    held = RetainedSockets(pid=os.getpid())
    with socket.socket() as idle:
        assert not held.add(FIRST, os.dup(idle.fileno()), idle.fileno())
    reading, writing = os.pipe()
    os.close(writing)
    assert not held.add(FIRST, reading, 0)
    assert len(held) == 0


def test_it_shows_when_the_other_side_has_closed_one() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as stays:
        held = held_of_this_process(stays, server)
        assert held.envoy_has_all()
        number = server.detach()
        with Path("/dev/null").open("rb") as other:
            os.dup2(other.fileno(), number)
        assert not held.envoy_has_all()
        os.close(number)
        assert not held.envoy_has_all()
        held.close()


def test_an_envoy_that_has_died_has_closed_none_on_purpose() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    held = RetainedSockets(pid=2**22 + 1)
    assert held.add(FIRST, server.detach(), 20)
    assert held.envoy_has_all()
    held.close()


def test_another_process_goes_on_with_what_it_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as has:
        gone = socket.create_server(("127.0.0.1", 0))
        held = RetainedSockets(pid=1)
        assert held.add(FIRST, os.dup(has.fileno()), 0)
        assert held.add(SECOND, gone.detach(), 0)
        # This process has both as well, by our own doing; a descriptor is found for each.
        held.keep_those_of(os.getpid())
        assert len(held) == 2
        assert held.envoy_has_all()
        assert held.pass_on(FIRST) is not None
        no_process = 2**22 + 1
        held.keep_those_of(no_process)
        assert len(held) == 0
        assert held.pass_on(FIRST) is None


def test_addresses_are_named_as_envoys_name_them() -> None:
    def at(address: str, port: int, **more: JSON) -> JSON:
        return {"socket_address": {"address": address, "port_value": port, **more}}

    statuses: list[JSON] = [
        {"name": "a", "local_address": at("127.0.0.1", 80)},
        {
            "name": "b",
            "local_address": at("::1", 81),
            "additional_local_addresses": [at("192.0.2.1", 82), at("127.0.0.1", 80)],
        },
        {"name": "c", "local_address": {"pipe": {"path": "/run/c"}}},
        {"name": "d", "local_address": at("127.0.0.1", 443, protocol="UDP")},
        {"name": "e", "local_address": {"envoy_internal_address": {}}},
    ]
    assert listening_addresses({"listener_statuses": statuses}) == (
        "tcp://127.0.0.1:80",
        "tcp://[::1]:81",
        "tcp://192.0.2.1:82",
        "unix:///run/c",
    )
    other_network_namespace: JSON = {
        "local_address": at("127.0.0.1", 80, network_namespace_filepath="/run/netns/x")
    }
    assert listening_addresses({"listener_statuses": [*statuses, other_network_namespace]}) == ()


JSON_VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["local_address", "socket_address", "address", "pipe", "x"]), inner
        )
    ),
)


@given(JSON_VALUES)
def test_any_answer_can_be_read(value: JSON) -> None:
    listening_addresses({"listener_statuses": value})


class Parent:
    """AdminAnswered as an Envoy, when asked to."""

    def __init__(self, at: HotRestartSockets) -> None:
        self.at = at
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(str(at.parent))

    async def question(self) -> SocketName:
        datagram = await asyncio.get_running_loop().sock_recv(self.socket, 4096)
        request = read_request(datagram)
        assert request is not None
        return SocketName(address=request.address, worker=request.worker)

    def answer(self, datagram: bytes, *passed: int) -> None:
        rights = [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, number.to_bytes(4, "little"))
            for number in passed
        ]
        self.socket.sendmsg([datagram], rights, 0, str(self.at.child))


@pytest.fixture
async def parent(socket_dir: Path) -> AsyncIterator[Parent]:
    parent = Parent(HotRestartSockets(parent=socket_dir / "parent", child=socket_dir / "child"))
    yield parent
    parent.socket.close()
    parent.at.parent.unlink()


@pytest.fixture
async def process() -> AsyncIterator[Subprocess]:
    process = spawn(["sleep", "3600"])
    process.listen(lambda _: None, lambda: None)
    yield process
    await process.kill()


async def asked(
    at: HotRestartSockets,
    process: Subprocess,
    *,
    most: int = 9,
    wanted: Callable[[], bool] = lambda: True,
) -> RetainedSockets | None:
    return await fetch_listening_sockets(
        at, [FIRST.address], pid=process.pid, exited=process.exited, most=most, wanted=wanted
    )


async def test_each_worker_is_asked_for_until_there_is_none(
    parent: Parent, process: Subprocess
) -> None:
    asking = asyncio.create_task(asked(parent.at, process))
    local = ("127.0.0.1", 0)
    with socket.create_server(local) as one, socket.create_server(local) as two:
        for worker, server in enumerate([one, two]):
            assert await parent.question() == SocketName(address=FIRST.address, worker=worker)
            parent.answer(passed_socket(server.fileno()), server.fileno())
        assert (await parent.question()).worker == 2
        parent.answer(passed_socket(NO_SOCKET))
        held = await asking
        assert held is not None
        assert len(held) == 2
        held.pid = os.getpid()
        assert held.envoy_has_all()
        held.close()
    assert not parent.at.child.exists()


async def test_who_has_asked_stays_to_hear_the_answer(parent: Parent, process: Subprocess) -> None:
    """Envoy aborts if it cannot deliver one."""
    wanted = [True]
    asking = asyncio.create_task(asked(parent.at, process, wanted=lambda: wanted[0]))
    await parent.question()
    wanted[0] = False
    assert parent.at.child.exists()
    with socket.create_server(("127.0.0.1", 0)) as server:
        parent.answer(passed_socket(server.fileno()), server.fileno())
    assert await asking is None
    assert not parent.at.child.exists()


@pytest.mark.parametrize("said", [b"", b"\0" * 8 + b"\x18\x01"], ids=["nothing", "not understood"])
async def test_an_answer_that_is_none_ends_it(
    parent: Parent, process: Subprocess, said: bytes
) -> None:
    asking = asyncio.create_task(asked(parent.at, process))
    await parent.question()
    parent.answer(said)
    assert await asking is None


async def test_an_envoy_that_dies_is_not_waited_for(parent: Parent, process: Subprocess) -> None:
    asking = asyncio.create_task(asked(parent.at, process))
    await parent.question()
    await process.kill()
    assert await asking is None


async def test_an_envoy_that_is_not_there_is_not_asked(
    socket_dir: Path, process: Subprocess
) -> None:
    at = HotRestartSockets(parent=socket_dir / "parent", child=socket_dir / "child")
    assert await asked(at, process) is None


async def test_no_more_than_so_many_are_held(parent: Parent, process: Subprocess) -> None:
    asking = asyncio.create_task(asked(parent.at, process, most=1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        await parent.question()
        parent.answer(passed_socket(server.fileno()), server.fileno())
        held = await asking
    assert held is not None
    assert len(held) == 1
    held.close()
