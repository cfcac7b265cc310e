"""Ends connections that another process of the same user has open, without root.

The kernel gives a copy of a descriptor to a process that may trace the other, and a parent may do
that also where only descendants may be traced (Yama). Envoy itself closes idle connections of a
cluster that changes, and lets those with a request on them finish.
https://man7.org/linux/man-pages/man2/pidfd_getfd.2.html
"""

import ctypes
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

_PIDFD_GETFD = 438  # the same on all architectures
_ESTABLISHED = "01"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def end_connections(pid: int, addresses: frozenset[str]) -> int:
    """Shut a process's connections to these addresses down, and return how many there were.

    A process that has ended has none. Raises `OSError` if this machine does not let one process
    have another's descriptors.
    """
    try:
        found = list(_connections(pid, addresses))
        if not found:
            return 0
        process = os.pidfd_open(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    try:
        for descriptor in found:
            _shut_down(process, descriptor)
    finally:
        os.close(process)
    return len(found)


def _connections(pid: int, addresses: frozenset[str]) -> Iterator[int]:
    """Yield the descriptors of a process that are connections to one of the addresses."""
    inodes = set(_inodes(pid, addresses))
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            match = _SOCKET.fullmatch(str(entry.readlink()))
            if match is not None and match[1] in inodes:
                yield int(entry.name)


def _inodes(pid: int, addresses: frozenset[str]) -> Iterator[str]:
    """Yield the sockets of a process's network that are connected to one of the addresses."""
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        host = int.from_bytes(bytes.fromhex(fields[2].split(":")[0]), sys.byteorder)
        if fields[3] == _ESTABLISHED and str(IPv4Address(host)) in addresses:
            yield fields[9]


def _shut_down(process: int, descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    copied = libc.syscall(_PIDFD_GETFD, process, descriptor, 0)
    if copied < 0:
        number = ctypes.get_errno()
        if number == 9:  # EBADF: it is closed already
            return
        raise OSError(number, os.strerror(number))
    with socket.socket(fileno=copied) as connection, suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
