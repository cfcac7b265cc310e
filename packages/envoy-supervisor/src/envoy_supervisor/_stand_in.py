"""Answers for an old Envoy that has ended, so that its successor does not stumble.

After a hot restart the new Envoy keeps asking the old one for statistics, until it tells it to
end. If the old one ends before that (the kernel kills it, somebody ends it), the new one blocks
its main thread for ten seconds in tries to reach it, and then aborts with everything it serves. So
we bind the old one's socket and answer that there is nothing to tell.

Messages are datagrams: eight bytes of length, big endian, and a `HotRestartMessage` of Envoy's
source/server/hot_restart.proto, of which only the outermost field numbers are looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from pathlib import Path

log = logging.getLogger(__name__)

MAX_DATAGRAM_BYTES = 65536

_REQUEST = 0x0A
_STATS = 0x1A
_NO_STATS = b"\x12\x02\x1a\x00"


class StandIn:
    """Bound at one old Envoy's socket until closed."""

    def __init__(self, parent: Path, child: Path) -> None:
        self._parent = parent
        self._child = child
        self._socket: socket.socket | None = None

    def open(self) -> None:
        """Take the old one's place. Raises OSError."""
        self._parent.unlink(missing_ok=True)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            bound.bind(str(self._parent))
            self._parent.chmod(0o600)
        except OSError:
            bound.close()
            raise
        self._socket = bound
        asyncio.get_running_loop().add_reader(bound.fileno(), self._on_message, bound)

    def close(self) -> None:
        """Stop answering; the file goes with the rest of the family's."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _on_message(self, bound: socket.socket) -> None:
        with contextlib.suppress(OSError):  # gone again, or not there to be answered
            reply = answer(bound.recv(MAX_DATAGRAM_BYTES))
            if reply is not None:
                bound.sendto(reply, str(self._child))


def answer(datagram: bytes) -> bytes | None:
    """The datagram to send back; None for messages that expect no answer."""
    body = datagram[8:]
    # A request for statistics: field 1 (request), and in it field 3 (stats), which is empty.
    if len(body) >= 3 and body[0] == _REQUEST and body[2] == _STATS:
        return len(_NO_STATS).to_bytes(8, "big") + _NO_STATS
    return None


def stand_in(prefix: Path, base_id: int, epoch: int) -> StandIn | None:
    """The stand-in for the process of that epoch; None if it had no socket there."""
    parent = Path(f"{prefix}_parent_{socket_number(base_id, epoch)}")
    child = Path(f"{prefix}_child_{socket_number(base_id, epoch + 1)}")
    return StandIn(parent, child) if parent.exists() and child.exists() else None


def socket_number(base_id: int, epoch: int) -> int:
    """The number at the end of a socket's name, as Envoy computes it: 32 bits, sign-extended."""
    number = base_id * 10 & 0xFFFFFFFF
    if number >= 1 << 31:
        number += (1 << 64) - (1 << 32)
    return (number + epoch) & 0xFFFFFFFFFFFFFFFF
