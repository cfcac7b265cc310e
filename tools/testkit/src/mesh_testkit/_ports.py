"""TCP ports for programs that can't bind port 0 themselves.

Between the moment a port is found free and the moment a program listens on it, any process of the
machine may take it: a socket that binds port 0 or connects gets a port of the ephemeral range. So
the ports given here lie outside that range, where the kernel gives none by chance.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DYNAMIC = range(49152, 65536)
"""The ephemeral range of a system that names none (RFC 6335, section 6)."""
_CANDIDATES = range(10_000, 65_536)
_OUR_OWN = range(15_000, 15_091)
"""The ports that agents, Envoys and control planes listen on by default."""
_ENOUGH = 1_000


def find_free_port(host: str = "127.0.0.1") -> int:
    """Find a TCP port that is free on every address, and that the kernel gives to no other socket.

    A process gets no port twice, and starts at a random one, so that the tests of two processes
    don't meet. Nothing reserves the port, so let a program that can do so bind port 0.

    Raises `OSError` if the host is no address of this machine or every port was given.
    """
    return first_free(host, _untried())


def first_free(host: str, ports: Iterator[int]) -> int:
    """Take from the ports until one is free; raises `OSError` as `find_free_port` does."""
    for port in ports:
        if _is_free(host, port):
            return port
    raise OSError(errno.EADDRINUSE, f"no port of {host} is left that was not given before")


@cache
def _untried() -> Iterator[int]:
    ports = candidates(ephemeral_range(_EPHEMERAL_RANGE))
    # Of the system's randomness: that of `random` may be seeded alike in every process.
    start = random.SystemRandom().randrange(len(ports))
    return iter(ports[start:] + ports[:start])


def ephemeral_range(file: Path) -> range:
    """Read from which ports the system chooses when it is asked for any."""
    try:
        lowest, highest = map(int, file.read_text().split())
    except (OSError, ValueError):
        return _DYNAMIC
    return range(lowest, highest + 1)


def candidates(ephemeral: range) -> tuple[int, ...]:
    """List the ports to choose from; the ephemeral ones too where too few others are left."""
    ports = tuple(port for port in _CANDIDATES if port not in _OUR_OWN)
    outside = tuple(port for port in ports if port not in ephemeral)
    return outside if len(outside) >= _ENOUGH else ports


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without SO_REUSEADDR, the wildcard address is refused whatever address the port is used on,
    # and even for a connection that only waits for its last packets.
    for each in (host, "::" if family == socket.AF_INET6 else "0.0.0.0"):  # noqa: S104 - a probe
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((each, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return False
    return True
