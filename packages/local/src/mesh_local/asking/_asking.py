"""The side of the other terminal: asks the mesh of a state folder."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from mesh_listening import credentials_of
from mesh_local._errors import MeshLocalError, NotRunning, StateError
from mesh_local._mesh_status import MeshStatus
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
from mesh_local.capture._joining import KINDS, join
from mesh_local.observation._routes import Route
from mesh_local.state._folder import StateFolder, is_running

T = TypeVar("T")

_ANSWERED_WITHIN_S = 10.0
_POLL_S = 0.05


def fetch_mesh_status(state: StateFolder, *, timeout_s: float = _ANSWERED_WITHIN_S) -> MeshStatus:
    """Return the state of the mesh; raises `NotRunning`, `StateError`, `MeshLocalError`."""
    return _ask(state, StatusQuestion(), MeshStatus, timeout_s=timeout_s)


def fetch_environment(state: StateFolder, workload: str) -> Environment:
    """Return a program's variables; raises as `fetch_mesh_status` does."""
    return _ask(state, EnvironmentQuestion(workload=workload), Environment)


def fetch_route(state: StateFolder, workload: str, url: str) -> Route:
    """Return where a workload's request goes; raises as `fetch_mesh_status` does."""
    return _ask(state, RouteQuestion(workload=workload, url=url), Route)


def join_mesh(state: StateFolder) -> bool:
    """Enter the namespaces of the mesh; return whether it has some of its own.

    Raises `NotRunning`, `NetworkError`.

    Then its addresses are reached, as from its own process; paths are that process's.
    """
    with _connected(state) as connection:
        handles: list[int] = []
        try:
            found = _put(connection, NamespacesQuestion(), Namespaces, state, handles=handles)
            if len(handles) != len(found.kinds):
                raise StateError(f"the mesh of {state.path} gives no descriptors of its namespaces")
            return join(dict(zip(found.kinds, handles, strict=True)))
        finally:
            for each in handles:
                os.close(each)


def stop_mesh(state: StateFolder) -> None:
    """Have the mesh stop in order; returns when nothing of it is left. Raises `NotRunning`."""
    with _connected(state) as connection:
        _put(connection, StopQuestion(), type(None), state)
        connection.settimeout(None)  # the mesh itself bounds its stop
        while connection.recv(4096):
            pass
    while is_running(state):  # the kernel tells of no lock that is given back
        time.sleep(_POLL_S)


def _ask(
    state: StateFolder,
    question: Question,
    kind: type[T],
    *,
    timeout_s: float = _ANSWERED_WITHIN_S,
) -> T:
    with _connected(state) as connection:
        connection.settimeout(timeout_s)
        return _put(connection, question, kind, state)


def _put(
    connection: socket.socket,
    question: Question,
    kind: type[T],
    state: StateFolder,
    *,
    handles: list[int] | None = None,
) -> T:
    """Ask, and return the answer. handles: gets the descriptors that come with it."""
    try:
        connection.sendall(msgspec.json.encode(question) + b"\n")
        line = _line(connection, [] if handles is None else handles)
    except TimeoutError:
        raise MeshLocalError(
            f"the mesh of {state.path} does not answer: is its process suspended?"
        ) from None
    except OSError:
        raise _not_running(state) from None
    try:
        found = msgspec.json.decode(line, type=Answered | Refusal)
        if isinstance(found, Refusal):
            raise MeshLocalError(found.sentence)
        return msgspec.json.decode(found.answer, type=kind)
    except msgspec.MsgspecError:
        raise MeshLocalError(
            f"the mesh of {state.path} gives no answer that this mesh-local understands: "
            "is it another version?"
        ) from None


def _line(connection: socket.socket, handles: list[int]) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        data, came, _, _ = socket.recv_fds(connection, 65536, len(KINDS))
        handles += came
        if not data:
            break
        received += data
        if len(received) > MOST_BYTES:
            break
    return bytes(received)


@contextmanager
def _connected(state: StateFolder) -> Iterator[socket.socket]:
    try:
        folder = os.open(state.run, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise _not_running(state) from None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWERED_WITHIN_S)
            try:
                connection.connect(str(Path(f"/proc/self/fd/{folder}", SOCKET)))
            except OSError:
                raise _not_running(state) from None
            # What it answers is run by `exec`: no other user's process may do that.
            if (uid := credentials_of(connection).uid) != os.geteuid():
                raise StateError(f"a process of user {uid} listens in {state.run}")
            yield connection
    finally:
        os.close(folder)


def _not_running(state: StateFolder) -> NotRunning:
    if is_running(state):
        return NotRunning(f"the mesh of {state.path} is starting or stopping, and can't be asked")
    return NotRunning(f"no mesh runs with the state folder {state.path}")
