"""The side of the running mesh: answers questions of its own user's other terminals.

The socket is in a folder of the user's own, and the kernel tells whose process connects: another
user's is not answered. A process that may connect may signal this one and read its files as well,
so that the answers give nothing away.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from mesh_listening import AllowedPeers, ListenError, credentials_of, listening_at
from mesh_local._errors import FaultError, MeshLocalError, StateError
from mesh_local._mesh_status import mesh_status
from mesh_local._parts import replicas, sender
from mesh_local._running_mesh import RunningMesh
from mesh_local.asking._questions import (
    MOST_BYTES,
    SOCKET,
    Answered,
    Environment,
    EnvironmentQuestion,
    Namespaces,
    NamespacesQuestion,
    Question,
    Refusal,
    RouteQuestion,
    StatusQuestion,
    StopQuestion,
)
from mesh_local.capture._joining import KINDS, own_namespaces
from mesh_local.observation._routes import route
from mesh_local.processes._specs import program_environment
from mesh_local.state._folder import StateFolder

log = logging.getLogger("mesh_local")

_ASKED_WITHIN_S = 5.0


class Answers:
    """The answers of a mesh; `mesh` is set once it runs."""

    def __init__(self, name: str, *, on_stop: Callable[[], None]) -> None:
        """on_stop: begins the stop; called once at most."""
        self.mesh: RunningMesh | None = None
        self._name = name
        self._on_stop = on_stop
        self._is_stopping = False

    def answer(self, question: Question) -> object:
        """Return the answer; raises `MeshLocalError`."""
        if isinstance(question, StopQuestion):
            if not self._is_stopping:
                self._is_stopping = True
                self._on_stop()
            return None
        if self.mesh is None:
            raise MeshLocalError(f"the mesh {self._name} is still starting its control plane")
        match question:
            case StatusQuestion():
                return mesh_status(self.mesh)
            case EnvironmentQuestion():
                instance = replicas(self.mesh, question.workload)[0].instance
                if instance.workload.gateway is not None:
                    raise FaultError(f"{instance.name} is a gateway: it has no program")
                given = program_environment(self.mesh.plan, instance, self.mesh.state)
                return Environment(variables=given, network=instance.addresses.network)
            case NamespacesQuestion():
                return Namespaces(kinds=KINDS if self.mesh.plan.is_redirected else ())
            case RouteQuestion():
                instance = sender(self.mesh, question.workload)[0].instance
                return route(self.mesh.plan, instance, question.url)


@asynccontextmanager
async def answering(state: StateFolder, answers: Answers) -> AsyncIterator[None]:
    """Answer questions while the block runs; raises `StateError` if there can be no socket.

    Connections of those who asked for the stop end after the block.
    """
    serving = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - streams are served by tasks
        serving.add(task)
        try:
            if (question := await _question(reader, writer)) is None:
                return
            answer = _answer(answers, question)
            if isinstance(question, NamespacesQuestion) and isinstance(answer, Answered):
                _send_namespaces(writer, answer)
            else:
                await _send(writer, answer)
            if isinstance(question, StopQuestion):
                await asyncio.Event().wait()
        except ValueError as error:
            log.warning("question is not understood", extra={"reason": str(error)})
        except OSError as error:  # also the end of the time that it has
            log.info("question was given up by its asker", extra={"reason": repr(error)})
        finally:
            serving.discard(task)
            writer.transport.abort()  # the answer has been taken, or never will be
            with suppress(OSError):
                await writer.wait_closed()

    # The name of an open folder is short, however long its path is; a socket's name must be.
    folder = os.open(state.run, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with listening_at(Path(f"/proc/self/fd/{folder}/{SOCKET}")) as listening:
            server = await asyncio.start_unix_server(serve, sock=listening, limit=MOST_BYTES)
            async with server:
                try:
                    yield
                finally:
                    server.close()
                    for task in serving:
                        task.cancel()
                    if serving:
                        await asyncio.wait(serving)
    except ListenError as error:
        raise StateError(f"the state folder {state.path} can have no socket: {error}") from None
    finally:
        os.close(folder)


async def _question(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Question | None:
    """Read a question; None from a process of another user."""
    peer = credentials_of(writer.get_extra_info("socket"))
    refusal = AllowedPeers(uids=frozenset({os.geteuid(), 0})).refusal(peer)
    if refusal is not None:
        log.warning("question of another user is not answered", extra={"reason": refusal})
        return None
    async with asyncio.timeout(_ASKED_WITHIN_S):
        question: Question = msgspec.json.decode(await reader.readline(), type=Question)
        return question


def _answer(answers: Answers, question: Question) -> Answered | Refusal:
    try:
        return Answered(answer=msgspec.Raw(msgspec.json.encode(answers.answer(question))))
    except MeshLocalError as error:
        return Refusal(sentence=str(error))


async def _send(writer: asyncio.StreamWriter, answer: Answered | Refusal) -> None:
    writer.transport.set_write_buffer_limits(high=0)  # so that `drain` waits for all of it
    writer.write(msgspec.json.encode(answer) + b"\n")
    async with asyncio.timeout(_ASKED_WITHIN_S):
        await writer.drain()


def _send_namespaces(writer: asyncio.StreamWriter, answer: Answered) -> None:
    """Send the answer with the descriptors that it names; there is room, as it is the first."""
    kinds = msgspec.json.decode(answer.answer, type=Namespaces).kinds
    handles = own_namespaces(kinds)
    try:
        # asyncio's own socket sends no descriptors.
        own = socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno()))
        with own:
            socket.send_fds(own, [msgspec.json.encode(answer) + b"\n"], handles)
    finally:
        for each in handles:
            os.close(each)
