"""The listening addresses, and the sockets bound to them, UDP and TCP on one port."""

import errno
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from typing import NamedTuple

from mesh_dnsproxy._errors import AddressInUse, ConfigError

_RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""A packet needs about 800 bytes of it: the usual 200 kB are full after a few milliseconds."""
_SEND_BUFFER_BYTES = 128 * 1024
"""Of each connection; the kernel would keep up to 4 MiB for a client that does not read."""
_BACKLOG = 128
_TRIES_FOR_A_PORT = 20


class ListenAddress(NamedTuple):
    """A listening address.

    host: an IPv4 or IPv6 address, or `localhost` for the loopback addresses of this machine.
    port: 0 for any.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Read `HOST:PORT`, an IPv6 address in brackets; raises `ConfigError`."""
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        good = bool(colon and bare) and port.isdecimal() and int(port) < 1 << 16
        if not good or (":" in bare) != (bare != host):
            raise ConfigError(f"{text!r} is no address to listen on; one is 127.0.0.1:15053")
        return cls(bare, int(port))


class BoundSockets(NamedTuple):
    """The two sockets of one listening address."""

    udp: socket.socket
    tcp: socket.socket
    host: str
    port: int


def bind(addresses: Iterable[ListenAddress], stack: ExitStack) -> tuple[BoundSockets, ...]:
    """Bind sockets, which the stack closes; raises `AddressInUse` or `ConfigError`."""
    bound: list[BoundSockets] = []
    for address in addresses:
        if address.host == "localhost":
            hosts = ["127.0.0.1", "::1"] if _has_ipv6_loopback() else ["127.0.0.1"]
        else:
            hosts = [address.host]
        port = address.port
        for host in hosts:
            sockets = _bind_both(host, port)
            stack.enter_context(sockets.udp)
            stack.enter_context(sockets.tcp)
            bound.append(sockets)
            port = sockets.port
    return tuple(bound)


def _bind_both(host: str, port: int) -> BoundSockets:
    for tries_left in reversed(range(_TRIES_FOR_A_PORT)):
        with ExitStack() as stack:
            udp = stack.enter_context(_bound(host, port, socket.SOCK_DGRAM))
            chosen: int = udp.getsockname()[1]
            try:
                tcp = stack.enter_context(_bound(host, chosen, socket.SOCK_STREAM))
            except AddressInUse:
                if port or not tries_left:
                    raise
                continue  # somebody has TCP on the port that UDP was given
            tcp.listen(_BACKLOG)
            stack.pop_all()
            return BoundSockets(udp, tcp, host, chosen)
    raise AddressInUse(f"no port of {host} is free for both UDP and TCP")


def _bound(host: str, port: int, kind: socket.SocketKind) -> socket.socket:
    try:
        family, _, protocol, _, address = socket.getaddrinfo(
            host, port, type=kind, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{host!r} is no address of a listener: {error}") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        else:
            _enlarge(sock)
        sock.bind(address)
    except OSError as error:
        sock.close()
        what = "UDP" if kind == socket.SOCK_DGRAM else "TCP"
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(f"{what} port {port} of {host} is in use") from error
        raise AddressInUse(f"{what} port {port} of {host} can't be bound: {error}") from error
    except BaseException:
        sock.close()
        raise
    return sock


def _enlarge(sock: socket.socket) -> None:
    force = getattr(socket, "SO_RCVBUFFORCE", 33)
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, _RECEIVE_BUFFER_BYTES)
    except OSError:  # without CAP_NET_ADMIN: as much as net.core.rmem_max allows
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def is_local(host: str) -> bool:
    """Return whether this machine has the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
