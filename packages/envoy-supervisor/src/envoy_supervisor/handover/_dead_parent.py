"""Answers for an old Envoy that has ended, so that its successor does not stumble.

A new Envoy asks the one before it for its listening sockets and its statistics, until it tells it
to end. If the old one is not there, the new one blocks its main thread for ten seconds in tries to
reach it, and then aborts with everything it serves. So we bind the old one's socket and answer:
with the listening sockets that were kept, if it has died, and that there is nothing else to tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from envoy_supervisor.handover._hot_restart_files import Sockets
from envoy_supervisor.handover._messages import (
    NO_SOCKET,
    Request,
    Subject,
    admin_is_shut_down,
    no_statistics,
    passed_socket,
    read_request,
)

MAX_DATAGRAM_BYTES = 65536

Claim = Callable[[str, int], int | None]
"""From a listener's address and a worker's index to the descriptor of a socket that was kept."""


def nothing_kept(_address: str, _worker: int) -> None:
    """For an old Envoy that had time to hand over itself."""
    return


def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A datagram to send, and the descriptor that goes with it."""

    datagram: bytes
    descriptor: int | None = None

    @property
    def control(self) -> list[tuple[int, int, bytes]]:
        """What carries the descriptor. Envoy aborts on any other message that has such data."""
        if self.descriptor is None:
            return []
        passed = self.descriptor.to_bytes(4, sys.byteorder)
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)]


class StandIn:
    """Bound at one old Envoy's socket until closed.

    claim: which listening sockets it gives. live: called when the new Envoy serves. owed: it has
    served already, so that it may wait for statistics it asked the old one for just before its end.
    """

    def __init__(
        self,
        at: Sockets,
        *,
        claim: Claim = nothing_kept,
        live: Callable[[], None] = _nothing,
        owed: bool = False,
    ) -> None:
        self._at = at
        self._claim = claim
        self._live = live
        self._owed = owed
        self._socket: socket.socket | None = None
        self._since = 0

    def open(self) -> None:
        """Take the old one's place. Raises OSError."""
        # The old one's file is replaced in one step: without any file, the new Envoy aborts.
        ours = self._at.parent.with_name(self._at.parent.name.replace("_parent_", "_stands_"))
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
        if self._owed:
            # Its main thread would wait for ever. If it has not asked, it takes this for the
            # answer to its next question, which is the same.
            with contextlib.suppress(OSError):  # it is not there any more
                bound.sendto(no_statistics(), str(self._at.child))
        self._since = int(time.time())
        asyncio.get_running_loop().add_reader(bound.fileno(), self._on_message, bound)

    def close(self) -> None:
        """Stop answering; the file goes with the rest of the family's."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _on_message(self, bound: socket.socket) -> None:
        try:
            datagram = bound.recv(MAX_DATAGRAM_BYTES)
        except OSError:  # gone again
            return
        request = read_request(datagram)
        if request is None:
            return
        reply = answer(request, claim=self._claim, since=self._since)
        if reply is not None:
            with contextlib.suppress(OSError):  # whoever asked is not there any more
                # Not send_fds, which ignores the address.
                bound.sendmsg([reply.datagram], reply.control, 0, str(self._at.child))
        if request.subject is Subject.DRAIN_LISTENERS:
            self._live()
        elif request.subject is Subject.TERMINATE:
            self.close()  # it asks nothing more


def answer(request: Request, *, claim: Claim, since: int) -> Answer | None:
    """What an Envoy would say that began at `since` and has these sockets; None: it is silent."""
    match request.subject:
        case Subject.PASS_LISTEN_SOCKET:
            descriptor = None if request.elsewhere else claim(request.address, request.worker)
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
