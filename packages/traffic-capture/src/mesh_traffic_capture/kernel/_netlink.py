"""Requests to the kernel's routing (rtnetlink(7)): a small image may have no `ip`."""

from __future__ import annotations

# `socket` takes longer to load than the kernel to answer, and adds nothing that is needed here.
import _socket
import errno
import os
import struct
from contextlib import closing

from mesh_traffic_capture._errors import CaptureFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

_NETLINK_ROUTE: Final = 0
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x300, 0x200, 0x400
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_NO_SUCH_FAMILY: Final = frozenset({errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EPFNOSUPPORT})
"""A kernel without IPv6 has no rules and routes of it."""
_MOST_MESSAGES: Final = 100_000
_TIMEOUT_S: Final = 10


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute of a message."""
    padding = b"\0" * (-len(value) % 4)
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + padding


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes at the end of a message, by their kinds."""
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def dump(kind: int, body: bytes) -> Iterator[bytes]:
    """Yield the bodies of all that the kernel lists; raises `CaptureFailed`.

    Of an address family that it does not have, a kernel lists nothing, or another one's.
    """
    with closing(_asking(kind, _REQUEST | _DUMP, body)) as asked:
        for _ in range(_MOST_MESSAGES):
            for answer, content in _messages(asked.recv(1 << 18)):
                if answer == _DONE:
                    return
                if answer == _ERROR:
                    if -struct.unpack_from("=i", content)[0] in _NO_SUCH_FAMILY:
                        return
                    raise _failure(kind, content)
                yield content


def ask(kind: int, body: bytes) -> bytes | None:
    """Return the body of the kernel's answer about one thing; None if there is no such thing."""
    with closing(_asking(kind, _REQUEST, body)) as asked:
        for answer, content in _messages(asked.recv(1 << 16)):
            return None if answer == _ERROR else content
    return None


def change(kind: int, body: bytes, *, create: bool = False) -> None:
    """Have the kernel add or remove something; raises `CaptureFailed`.

    What is there already, or gone already, is no failure.
    """
    flags = _REQUEST | _ACK | (_CREATE | _EXCLUSIVE if create else 0)
    with closing(_asking(kind, flags, body)) as asked:
        for answer, content in _messages(asked.recv(1 << 16)):
            code = -struct.unpack_from("=i", content)[0]
            gone = {errno.EEXIST, errno.ENOENT, errno.ESRCH, errno.EADDRNOTAVAIL}
            if answer == _ERROR and code and code not in gone:
                raise _failure(kind, content)


def _asking(kind: int, flags: int, body: bytes) -> _socket.socket:
    try:
        asked = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _NETLINK_ROUTE)
        asked.settimeout(_TIMEOUT_S)
        asked.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
    except OSError as error:
        raise CaptureFailed(f"the kernel's routing can't be asked: {error.strerror}") from error
    return asked


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            break
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _failure(kind: int, content: bytes) -> CaptureFailed:
    code = -struct.unpack_from("=i", content)[0]
    hint = ": it takes CAP_NET_ADMIN" if code == errno.EPERM else ""
    return CaptureFailed(
        f"the kernel refuses a change of routing ({os.strerror(code)}){hint} [{kind}]"
    )
