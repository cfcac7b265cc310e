"""Answers in the place of a parent that has died, so that its child in a hot restart starts.

A child asks its parent for listening sockets and statistics until it tells the parent to end. If
the parent is not there, the child blocks its main thread for ten seconds in tries to reach it, and
then aborts with everything it serves. So the supervisor binds the dead parent's socket and answers:
with the listening sockets that were retained, and with empty statistics.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Callable
from typing import TypeAlias, assert_never

import msgspec

from envoy_supervisor.handover._hot_restart_files import HotRestartSockets
from envoy_supervisor.handover._messages import (
    MAX_DATAGRAM_BYTES,
    NO_SOCKET,
    Request,
    Subject,
    admin_is_shut_down,
    no_statistics,
    passed_socket,
    read_request,
)
from envoy_supervisor.handover._retained_sockets import SocketName

PassSocket: TypeAlias = Callable[[SocketName], int | None]
"""Returns the descriptor of the retained socket of that name; None if there is none."""


def no_sockets(_name: SocketName) -> None:
    """Is the `PassSocket` for a parent that had time to pass its sockets itself."""
    return


def _nothing() -> None:
    return


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A datagram to send, and the descriptor that goes with it."""

    datagram: bytes
    descriptor: int | None = None

    @property
    def control(self) -> list[tuple[int, int, bytes]]:
        """The control data with the descriptor. Envoy aborts if another message has such data."""
        if self.descriptor is None:
            return []
        passed = self.descriptor.to_bytes(4, sys.byteorder)
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)]


class DeadParentResponder:
    """Answers at one dead parent's socket until it is closed.

    pass_socket: gives the retained listening sockets.
    on_child_serves: called when the child serves.
    child_serves_already: the child may wait for statistics that it asked its parent for just
        before the parent died.
    """

    def __init__(
        self,
        at: HotRestartSockets,
        *,
        pass_socket: PassSocket = no_sockets,
        on_child_serves: Callable[[], None] = _nothing,
        child_serves_already: bool = False,
    ) -> None:
        self._at = at
        self._pass_socket = pass_socket
        self._on_child_serves = on_child_serves
        self._child_serves_already = child_serves_already
        self._socket: socket.socket | None = None
        self._since = 0

    def open(self) -> None:
        """Binds the dead parent's socket. Raises OSError."""
        # The parent's file is replaced in one step: without any file, the child aborts.
        name = self._at.parent.name.replace("_parent_", "_responder_")
        ours = self._at.parent.with_name(name)
        ours.unlink(missing_ok=True)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            bound.bind(str(ours))
            ours.chmod(0o600)
            ours.rename(self._at.parent)
        except OSError:
            bound.close()
            raise
        self._socket = bound
        if self._child_serves_already:
            # The child's main thread would wait for ever. If the child has not asked, it takes this
            # for the answer to its next question, which is the same.
            with contextlib.suppress(OSError):  # the child has ended
                bound.sendto(no_statistics(), str(self._at.child))
        self._since = int(time.time())
        asyncio.get_running_loop().add_reader(bound.fileno(), self._on_message, bound)

    def close(self) -> None:
        """Stop answering. The socket's file is removed with the rest of the series' files."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _on_message(self, bound: socket.socket) -> None:
        try:
            datagram = bound.recv(MAX_DATAGRAM_BYTES)
        except OSError:  # nothing to read after all
            return
        request = read_request(datagram)
        if request is None:
            return
        reply = respond(request, pass_socket=self._pass_socket, since=self._since)
        if reply is not None:
            with contextlib.suppress(OSError):  # the child has ended
                # Not send_fds, which ignores the address.
                bound.sendmsg([reply.datagram], reply.control, 0, str(self._at.child))
        if request.subject is Subject.DRAIN_LISTENERS:
            self._on_child_serves()
        elif request.subject is Subject.TERMINATE:
            self.close()  # the child asks no more


def respond(request: Request, *, pass_socket: PassSocket, since: int) -> Answer | None:
    """Return the answer of a parent that began at `since`; None if the request has no answer."""
    match request.subject:
        case Subject.PASS_LISTEN_SOCKET:
            name = SocketName(address=request.address, worker=request.worker)
            descriptor = None if request.other_network_namespace else pass_socket(name)
            number = NO_SOCKET if descriptor is None else descriptor
            return Answer(datagram=passed_socket(number), descriptor=descriptor)
        case Subject.SHUTDOWN_ADMIN:
            return Answer(datagram=admin_is_shut_down(started=since))
        case Subject.STATS:
            return Answer(datagram=no_statistics())
        case Subject.DRAIN_LISTENERS | Subject.TERMINATE:
            return None
        case _:
            assert_never(request.subject)
