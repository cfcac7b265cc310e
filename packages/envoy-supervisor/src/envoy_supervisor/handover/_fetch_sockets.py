"""Asks a running Envoy for its listening sockets, as the next one of its family would.

One rule is vital: whoever has asked must stay to hear the answer. Envoy aborts if it cannot deliver
one ("hot restart sendmsg() failed"), with everything it serves. So the socket that answers come to
is closed only when none is outstanding or Envoy has ended, and whoever is asked to start the next
Envoy, which takes that same socket's name, waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from envoy_supervisor.handover._dead_parent import MAX_DATAGRAM_BYTES
from envoy_supervisor.handover._hot_restart_files import Sockets
from envoy_supervisor.handover._messages import (
    NO_SOCKET,
    ask_for_socket,
    read_passed_socket,
)
from envoy_supervisor.handover._retained_sockets import HeldSockets, Place

log = logging.getLogger(__name__)

MOST_WORKERS = 1024


async def held_sockets(
    at: Sockets,
    addresses: Iterable[str],
    *,
    pid: int,
    exited: asyncio.Future[int],
    most: int,
    wanted: Callable[[], bool],
) -> HeldSockets | None:
    """Duplicates of the sockets that the process listens on at these addresses.

    most: how many at most. wanted: asked before each question; False ends it.
    None if it was not wanted any more, or the process has ended or says strange things.
    """
    held = HeldSockets(pid=pid)
    complete = False
    try:
        async with _answers_at(at) as mailbox:
            for address in addresses:
                for worker in range(MOST_WORKERS):
                    if not wanted():
                        return None
                    if len(held) >= most:
                        log.warning("too many listening sockets to keep all", extra={"kept": most})
                        complete = True
                        return held
                    place = Place(address=address, worker=worker)
                    number, descriptor = await _ask(mailbox, exited, at, place)
                    if descriptor is None:
                        if number != NO_SOCKET:
                            return None
                        break
                    if number is None:
                        os.close(descriptor)
                        return None
                    if not held.add(place, descriptor, number):
                        break
        complete = True
        return held
    except OSError as error:
        log.debug("envoy was not asked for its sockets", extra={"error": str(error)})
        return None
    finally:
        if not complete:
            held.close()


@asynccontextmanager
async def _answers_at(at: Sockets) -> AsyncIterator[socket.socket]:
    at.child.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as mailbox:
        mailbox.bind(str(at.child))
        try:
            at.child.chmod(0o600)
            yield mailbox
        finally:
            with suppress(OSError):
                at.child.unlink()


async def _ask(
    mailbox: socket.socket, exited: asyncio.Future[int], at: Sockets, place: Place
) -> tuple[int | None, int | None]:
    """Envoy's number of the socket and our own; (None, None) if there is no answer to be had."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()
    loop.add_reader(mailbox.fileno(), _settle, arrived)
    try:
        mailbox.sendto(ask_for_socket(place.address, place.worker), str(at.parent))
        # Not bounded in time, see above: it ends when Envoy answers or ends.
        either: set[asyncio.Future[object]] = {arrived, exited}  # type: ignore[arg-type]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(mailbox.fileno())
    if not arrived.done():
        return None, None
    flags = socket.MSG_CMSG_CLOEXEC
    datagram, passed, _, _ = socket.recv_fds(mailbox, MAX_DATAGRAM_BYTES, 1, flags)
    return read_passed_socket(datagram), passed[0] if passed else None


def _settle(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
