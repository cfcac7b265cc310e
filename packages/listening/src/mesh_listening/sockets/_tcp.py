"""Listening TCP sockets, and the loopback address that this machine has."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mesh_listening._errors import ListenError

LOOPBACK_HOSTS = ("127.0.0.1", "::1")
_BACKLOG = 4096
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""The errors of an address, or an address family, that this machine lacks."""


@contextmanager
def listening_on(host: str, port: int, *, backlog: int = _BACKLOG) -> Iterator[list[socket.socket]]:
    """Listen on every address that `host` stands for; empty: on all of this machine.

    Of a name with several addresses, such as `localhost`, those that this machine lacks are left
    out. Port 0 takes a free one, the same for all. The sockets are closed with the context.
    Raises ListenError.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(each) for each in _open(host, port, backlog)]


def format_address(listening: socket.socket) -> str:
    """Return the address of a socket as `host:port`, the host of IPv6 in brackets."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open(host: str, port: int, backlog: int) -> list[socket.socket]:
    opened: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, address in _addresses(host):
            try:
                opened.append(_listening(family, address, port, backlog))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
            else:
                port = opened[0].getsockname()[1]
        if not opened and missing is not None:
            raise missing
    except OSError as error:
        for each in opened:
            each.close()
        where = f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
        raise ListenError(f"cannot listen on {where}: {_reason(error)}") from error
    return opened


def _reason(error: OSError) -> str:
    # Python adds the address to the kernel's text; errors of name resolution have no errno of it.
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    if not host:
        both = socket.has_dualstack_ipv6()
        return [(socket.AF_INET6, "")] if both else [(socket.AF_INET, "")]
    # A text would load the codec for names of other scripts, and their tables, for digits too.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _listening(
    family: socket.AddressFamily, address: str, port: int, backlog: int
) -> socket.socket:
    listening = socket.create_server(
        (address, port), family=family, backlog=backlog, dualstack_ipv6=not address
    )
    listening.setblocking(False)
    return listening


def loopback_host() -> str:
    """Return the loopback address that works here: 127.0.0.1, or ::1 where there is no other.

    Raises ListenError if there is neither.
    """
    for host in LOOPBACK_HOSTS:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            with (
                socket.create_server((host, 0), family=family) as listening,
                socket.socket(family) as connecting,
            ):
                connecting.settimeout(1.0)
                connecting.connect(listening.getsockname())
                return host
        except OSError:
            continue
    raise ListenError(
        "this machine has no loopback address: neither 127.0.0.1 nor ::1 can be used; "
        "bring the interface lo up (ip link set lo up)"
    )
