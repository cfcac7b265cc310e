import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from mesh_local import MeshLocalError, MeshPlan, RunningMesh, StateFolder
from mesh_local._errors import NotRunning
from mesh_local._mesh_status import mesh_status
from mesh_local.asking._answering import Answers, answering
from mesh_local.asking._asking import (
    fetch_environment,
    fetch_mesh_status,
    fetch_route,
    stop_mesh,
)
from mesh_local.asking._questions import MOST_BYTES, SOCKET, EnvironmentQuestion, Question
from mesh_local.processes._children import Child, OnExit
from mesh_local.processes._guard import guarding
from mesh_local.processes._specs import ProcessSpec, Role
from mesh_local.state._folder import is_running, opened
from mesh_testkit import until


class Asked(Answers):
    """The answers of a mesh of which no process runs."""

    def __init__(self, running: RunningMesh) -> None:
        super().__init__("shop", on_stop=self._count_stop)
        self.running = running
        self.state = running.state
        self.stops = 0
        self.questions = 0

    def _count_stop(self) -> None:
        self.stops += 1

    def answer(self, question: Question) -> object:
        self.questions += 1
        return super().answer(question)


@asynccontextmanager
async def asked_mesh(plan: MeshPlan, folder: Path) -> AsyncIterator[Asked]:
    with opened(folder) as state:
        async with guarding() as guard:
            spec = ProcessSpec(
                name="control-plane",
                role=Role.CONTROL_PLANE,
                arguments=("x",),
                environment={},
                directory=folder,
                log=folder / "control-plane.log",
            )
            control_plane = Child(
                spec,
                on_exit=OnExit.RESTART,
                may_start=asyncio.Event(),
                kill_now=asyncio.Event(),
                guard=guard,
            )
            running = RunningMesh(plan=plan, state=state, control_plane=control_plane, workloads=())
            asked = Asked(running)
            async with answering(state, asked):
                yield asked


@pytest_asyncio.fixture
async def asked(plan: MeshPlan, tmp_path: Path) -> AsyncIterator[Asked]:
    # A socket's own name could not be as long as this path.
    async with asked_mesh(plan, tmp_path / ("long" * 30)) as asked:
        yield asked


@asynccontextmanager
async def connected(
    state: StateFolder,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    folder = os.open(state.run, os.O_PATH)
    reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{SOCKET}")
    os.close(folder)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_the_state_arrives_as_it_is(asked: Asked) -> None:
    asked.mesh = asked.running
    assert await asyncio.to_thread(fetch_mesh_status, asked.state) == mesh_status(asked.running)


async def test_a_mesh_that_starts_says_so(asked: Asked) -> None:
    with pytest.raises(MeshLocalError, match="the mesh shop is still starting"):
        await asyncio.to_thread(fetch_mesh_status, asked.state)


@pytest.mark.parametrize(
    "ask",
    [
        lambda state: fetch_environment(state, "bakend"),
        lambda state: fetch_route(state, "bakend", "http://backend/"),
    ],
)
async def test_a_workload_that_is_not_there_is_reported(
    asked: Asked, ask: Callable[[StateFolder], object]
) -> None:
    asked.mesh = asked.running
    with pytest.raises(MeshLocalError, match='there is no workload "bakend"; did you mean'):
        await asyncio.to_thread(ask, asked.state)


async def test_all_who_ask_for_the_stop_wait_for_its_end(plan: MeshPlan, tmp_path: Path) -> None:
    async with asked_mesh(plan, tmp_path / "state") as asked:
        waiting = [
            asyncio.ensure_future(asyncio.to_thread(stop_mesh, asked.state)) for _ in range(2)
        ]
        await until(lambda: asked.questions == 2, what="both questions")
        assert asked.stops == 1
        assert not any(each.done() for each in waiting)
    await asyncio.gather(*waiting)
    assert not is_running(asked.state)


async def test_a_silent_connection_does_not_hold_the_end_up(plan: MeshPlan, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        async with asked_mesh(plan, tmp_path / "state") as asked:
            silent.connect(str(asked.state.run / SOCKET))
            asked.mesh = asked.running
            await asyncio.to_thread(fetch_mesh_status, asked.state)
        assert silent.recv(1) == b""


async def test_a_mesh_that_was_killed_does_not_run(plan: MeshPlan, tmp_path: Path) -> None:
    async with asked_mesh(plan, tmp_path / "state") as asked:
        state, run = asked.state, asked.state.run
        os.link(run / SOCKET, run / "left")
    (run / "left").rename(run / SOCKET)  # which a killed process does not remove
    for ask in (fetch_mesh_status, stop_mesh):
        with pytest.raises(NotRunning, match="no mesh runs with the state folder"):
            ask(state)
    (run / SOCKET).unlink()


async def test_a_mesh_that_answers_nothing_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as state, socket.socket(socket.AF_UNIX) as other:
        other.bind(str(state.run / SOCKET))
        other.listen()
        with pytest.raises(MeshLocalError, match="does not answer: is its process suspended"):
            await asyncio.to_thread(fetch_mesh_status, state, timeout_s=0.1)
        (state.run / SOCKET).unlink()


@pytest.mark.parametrize("line", [b"", b"nonsense", b'{"type": "unknown"}', b"[" * 5000])
async def test_nonsense_gets_no_answer_and_does_no_harm(asked: Asked, line: bytes) -> None:
    asked.mesh = asked.running
    async with connected(asked.state) as (reader, writer):
        writer.write(line + b"\n")
        assert await reader.read() == b""
    assert await asyncio.to_thread(fetch_mesh_status, asked.state) == mesh_status(asked.running)


async def test_a_question_without_an_end_is_not_kept(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    asked.mesh = asked.running
    async with connected(asked.state) as (reader, writer):
        writer.write(b" " * (MOST_BYTES * 3))
        with suppress(ConnectionError):  # of what it sent, some was not read
            assert await reader.read() == b""
    assert asked.questions == 0
    assert "question is not understood" in caplog.messages
    assert await asyncio.to_thread(fetch_mesh_status, asked.state) == mesh_status(asked.running)


async def test_an_asker_who_does_not_read_holds_nothing_up(plan: MeshPlan, tmp_path: Path) -> None:
    # The answer has the name in it, which is more than a socket takes.
    question = msgspec.json.encode(EnvironmentQuestion(workload="x" * (MOST_BYTES // 2)))
    with socket.socket(socket.AF_UNIX) as deaf:
        async with asked_mesh(plan, tmp_path / "state") as asked:
            asked.mesh = asked.running
            deaf.connect(str(asked.state.run / SOCKET))
            await asyncio.to_thread(deaf.sendall, question + b"\n")
            await until(lambda: asked.questions == 1, what="the question")
            found = await asyncio.to_thread(fetch_mesh_status, asked.state)
            assert found == mesh_status(asked.running)
        assert not is_running(asked.state)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
async def test_another_user_gets_no_answer(plan: MeshPlan) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        async with asked_mesh(plan, Path(folder, "state")) as asked:
            asked.mesh = asked.running
            # As if its own folder did not keep others out.
            for path in (Path(folder), asked.state.path, asked.state.run):
                path.chmod(0o755)
            (asked.state.run / SOCKET).chmod(0o666)
            asking = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _ANOTHER_USER, str(asked.state.run / SOCKET)),
                stdout=subprocess.PIPE,
            )
            output, _ = await asking.communicate()
            assert output == b"answer: b''\n"
            assert asked.questions == 0


_ANOTHER_USER = """
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
connection.connect(sys.argv[1])
try:
    connection.sendall(b'{"type": "stop"}\\n')
    print("answer:", connection.recv(100))
except ConnectionError:
    print("answer:", b"")
"""
