"""Asks a running Envoy for its listening sockets, in the way its child in a hot restart does.

One rule is vital: the asking process must stay to receive the answer. Envoy aborts if it cannot
deliver one ("hot restart sendmsg() failed"), with everything it serves. So the socket that answers
come to is closed only when no answer is outstanding or Envoy has ended; and the next Envoy, which
takes that same socket's name, is not started before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from envoy_supervisor.handover._hot_restart_files import HotRestartSockets
from envoy_supervisor.handover._messages import (
    MAX_DATAGRAM_BYTES,
    NO_SOCKET,
    ask_for_socket,
    read_passed_socket,
)
from envoy_supervisor.handover._retained_sockets import RetainedSockets, SocketName

log = logging.getLogger(__name__)

MOST_WORKERS = 1024


class _Answer(NamedTuple):
    """The number that the socket has in Envoy, and the descriptor that came with it."""

    envoy_descriptor: int | None = None
    descriptor: int | None = None


class _Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Asks one Envoy, question by question."""

    mailbox: socket.socket
    at: HotRestartSockets
    exited: asyncio.Future[int]
    wanted: Callable[[], bool]

    async def ask(self, name: SocketName) -> _Answer:
        """Return Envoy's answer, which is empty if Envoy has ended."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()

        def on_exit(_: asyncio.Future[int]) -> None:
            arrived.set()

        self.exited.add_done_callback(on_exit)
        loop.add_reader(self.mailbox.fileno(), arrived.set)
        try:
            self.mailbox.sendto(ask_for_socket(name.address, name.worker), str(self.at.parent))
            # Not bounded in time, see above: it ends when Envoy answers or ends.
            await arrived.wait()
        finally:
            loop.remove_reader(self.mailbox.fileno())
            self.exited.remove_done_callback(on_exit)
        try:
            datagram, passed, _, _ = socket.recv_fds(
                self.mailbox, MAX_DATAGRAM_BYTES, 1, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:  # Envoy has ended without an answer
            return _Answer()
        return _Answer(read_passed_socket(datagram), passed[0] if passed else None)


async def fetch_listening_sockets(
    at: HotRestartSockets,
    addresses: Iterable[str],
    *,
    pid: int,
    exited: asyncio.Future[int],
    most: int,
    wanted: Callable[[], bool],
) -> RetainedSockets | None:
    """Return duplicates of the sockets that an Envoy listens on at these addresses.

    exited: is done when that Envoy has ended. most: how many sockets at most.
    wanted: called before each question; False ends the asking.

    Returns None if the sockets are not wanted any more, if Envoy has ended, or if it answers with
    anything else than a socket.
    """
    retained = RetainedSockets(pid=pid)
    complete = False
    try:
        async with _answers_at(at) as mailbox:
            questions = _Questions(mailbox=mailbox, at=at, exited=exited, wanted=wanted)
            complete = await _fetch_all(retained, questions, addresses, most=most)
    except OSError as error:
        log.debug("envoy was not asked for its sockets", extra={"error": str(error)})
    finally:
        if not complete:
            retained.close()
    return retained if complete else None


async def _fetch_all(
    retained: RetainedSockets, questions: _Questions, addresses: Iterable[str], *, most: int
) -> bool:
    """Return whether all questions were asked and answered."""
    for address in addresses:
        for worker in range(MOST_WORKERS):
            if not questions.wanted():
                return False
            if len(retained) >= most:
                log.warning("too many listening sockets to retain all", extra={"retained": most})
                return True
            name = SocketName(address=address, worker=worker)
            envoy_descriptor, descriptor = await questions.ask(name)
            if descriptor is None:
                if envoy_descriptor != NO_SOCKET:
                    return False
                break
            if envoy_descriptor is None:
                os.close(descriptor)
                return False
            if not retained.add(name, descriptor, envoy_descriptor):
                break
    return True


@asynccontextmanager
async def _answers_at(at: HotRestartSockets) -> AsyncIterator[socket.socket]:
    at.child.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as mailbox:
        mailbox.bind(str(at.child))
        try:
            at.child.chmod(0o600)
            yield mailbox
        finally:
            with suppress(OSError):
                at.child.unlink()
