"""A TCP connection, with TLS where it is asked for, on a plain socket.

The kubelet sets SO_LINGER to 1 s on the sockets of its probes, so that they are not in TIME_WAIT
for long. Linux keeps them there for 60 s all the same, but `close` then blocks for 1 s if the peer
has gone, even on a non-blocking socket, and the event loop with it. So it is not set here.
"""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from mesh_address_guard import AddressGuard
from mesh_probes._errors import CheckFailed

if TYPE_CHECKING:
    import ssl

_READ_BYTES = 16 * 1024
MAX_RECEIVED_BYTES = 256 * 1024
"""More than any response whose head and first 10 KiB of body are looked at."""
_IP_BIND_ADDRESS_NO_PORT = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24)

_GUARD = AddressGuard()
"""An application may be anywhere but where a cloud's metadata service is, whatever leads there."""

Address: TypeAlias = tuple[socket.AddressFamily, tuple[object, ...]]


class Connection:
    """An open connection. `send` and `receive` raise `CheckFailed`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._tls: _Tls | None = None
        self._received = 0

    async def send(self, data: bytes) -> None:
        """Send all of the data."""
        if self._tls is not None:
            self._tls.session.write(data)
            data = self._tls.outgoing.read()
        await self._send(data)

    async def receive(self) -> bytes:
        """Return what the peer has sent, b"" at its end."""
        if self._tls is None:
            return await self._receive()
        import ssl

        while True:
            try:
                return self._tls.session.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                await self._exchange(self._tls)
            except ssl.SSLEOFError:
                return b""  # Many servers end a response without TLS's own goodbye.
            except ssl.SSLError as error:
                raise CheckFailed(f"TLS failed: {_tls_reason(error)}") from error

    async def start_tls(self, *, server_name: str, protocols: tuple[str, ...]) -> str | None:
        """Do the handshake, with any certificate; return the protocol that was agreed on."""
        import ssl

        self._tls = tls = _Tls(server_name, protocols)
        while True:
            try:
                tls.session.do_handshake()
            except ssl.SSLWantReadError:
                await self._exchange(tls)
            except ssl.SSLError as error:
                with suppress(CheckFailed):
                    await self._send(tls.outgoing.read())  # The alert says what was wrong.
                raise CheckFailed(f"the TLS handshake failed: {_tls_reason(error)}") from error
            else:
                break
        await self._send(tls.outgoing.read())
        return tls.session.selected_alpn_protocol()

    async def _exchange(self, tls: "_Tls") -> None:
        """Send what TLS has to send, and give it what the peer answers."""
        await self._send(tls.outgoing.read())
        if data := await self._receive():
            tls.incoming.write(data)
        else:
            tls.incoming.write_eof()

    async def _send(self, data: bytes) -> None:
        if not data:
            return
        try:
            await self._loop.sock_sendall(self._socket, data)
        except OSError as error:
            raise CheckFailed(f"the connection broke: {os_reason(error)}") from error

    async def _receive(self) -> bytes:
        # sock_recv does not suspend if there is data. A peer that never pauses would keep the
        # timeout, and all other tasks, from running.
        await asyncio.sleep(0)
        try:
            data = await self._loop.sock_recv(self._socket, _READ_BYTES)
        except OSError as error:
            raise CheckFailed(f"the connection broke: {os_reason(error)}") from error
        self._received += len(data)
        if self._received > MAX_RECEIVED_BYTES:
            raise CheckFailed(f"more than {MAX_RECEIVED_BYTES} bytes were sent, more is not read")
        return data


class _Tls:
    """A TLS session between two buffers."""

    def __init__(self, server_name: str, protocols: tuple[str, ...]) -> None:
        import ssl

        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self.session: ssl.SSLObject = _context(protocols).wrap_bio(
                self.incoming, self.outgoing, server_hostname=server_name or None
            )
        except ValueError as error:
            raise CheckFailed(f"{server_name!r} can't be named in a TLS handshake") from error


@cache
def _context(protocols: tuple[str, ...]) -> "ssl.SSLContext":
    """Return a context that takes any certificate, as the kubelet does."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@asynccontextmanager
async def connected(host: str, port: int, *, sources: Sequence[str]) -> AsyncIterator[Connection]:
    """Connect to the first address of the host that accepts; raises `CheckFailed`."""
    sock = await _connect(host, port, sources)
    try:
        yield Connection(sock)
    finally:
        sock.close()


async def _connect(host: str, port: int, sources: Sequence[str]) -> socket.socket:
    refusals: list[str] = []
    for family, address in await _resolve(host, port):
        if (network := _GUARD.blocks(str(address[0]))) is not None:
            refusals.append(f"{address[0]} is a blocked address: it is in {network}")
            continue
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            _bind(sock, sources)
            await asyncio.get_running_loop().sock_connect(sock, address)
            if sock.getsockname() == sock.getpeername():
                # Both ends chose one port, and the kernel connected the socket with itself.
                raise ConnectionRefusedError(errno.ECONNREFUSED, "")
        except OSError as error:
            sock.close()
            refusals.append(f"connecting to {address[0]} port {port} failed: {os_reason(error)}")
        except BaseException:
            sock.close()
            raise
        else:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise CheckFailed("; ".join(refusals))


def _bind(sock: socket.socket, sources: Sequence[str]) -> None:
    """Bind the socket to the first source of its family that this machine has, if there is one."""
    for source in sources:
        if (":" in source) != (sock.family == socket.AF_INET6):
            continue
        with suppress(OSError):  # The port is chosen at `connect`, when the peer is known.
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        try:
            sock.bind((source, 0))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                continue
            raise OSError(0, f"it can't be done from {source}, {os_reason(error)}") from error
        return


async def _resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host; asks the resolver only for names other than localhost."""
    with suppress(socket.gaierror, UnicodeError):
        if host == "localhost":
            return [*_numeric("127.0.0.1", port), *_numeric("::1", port)]
        return list(_numeric(host, port))
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise CheckFailed(f"the name {host!r} was not resolved: {os_reason(error)}") from error
    return [(family, address) for family, _, _, _, address in found]


def _numeric(host: str, port: int) -> Iterator[Address]:
    flags = socket.AI_NUMERICHOST
    for family, _, _, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=flags
    ):
        yield family, address


def is_address(host: str) -> bool:
    """Tell an address from a name."""
    try:
        return bool(list(_numeric(host, 0)))
    except (OSError, UnicodeError):
        return False


def os_reason(error: Exception) -> str:
    """Return what an error of the system says, without its number."""
    text = str(error)
    if isinstance(error, OSError):
        # asyncio replaces the system's words by the address. The resolver has numbers of its own.
        known = error.errno and not isinstance(error, socket.gaierror)
        text = os.strerror(error.errno or 0) if known else error.strerror or text
    return text[:1].lower() + text[1:]


def _tls_reason(error: "ssl.SSLError") -> str:
    import ssl

    if error.reason == "WRONG_VERSION_NUMBER":
        return "the peer does not speak TLS"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        # Up to Python 3.11.2, an end without TLS's own goodbye is taken for one with it
        # (https://github.com/python/cpython/issues/95494).
        return "the peer closed the connection"
    return (error.reason or str(error)).replace("_", " ").lower()
