"""Connections: a name is looked up once, and what is connected to is the address that was checked.

A second look-up could have another answer than the one that was checked.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mesh_address_guard import AddressBlocked, AddressGuard
from mesh_identity import (
    HostNotResolved,
    NoSystemRoots,
    NoUsableRoots,
    fetch_addresses,
    fetch_system_roots,
    roots_context,
)
from wasm_modules._config import ANY_REGISTRY, WasmConfig
from wasm_modules._errors import DownloadError, PassingFailure
from wasm_modules.fetching._url import Url

_CONNECT_S = 5.0
_MOST_ADDRESSES = 8
_READ_AHEAD_BYTES = 256 * 1024


class Network:
    """Connects to the hosts of URLs."""

    def __init__(self, config: WasmConfig) -> None:
        self._guard = AddressGuard(blocked=config.blocked_networks)
        self._insecure = frozenset(each.lower() for each in config.insecure_registries)
        self._roots_pem = b""
        self._verified: ssl.SSLContext | None = None

    def is_insecure(self, url: Url) -> bool:
        """Return whether the host need not show who it is."""
        names = {ANY_REGISTRY, url.host, url.authority, f"{url.host}:{url.port}"}
        return not self._insecure.isdisjoint(names)

    @asynccontextmanager
    async def connecting(
        self, url: Url
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect to a URL's host; the connection is closed with the block.

        Raises DownloadError if all its addresses are blocked, PassingFailure if none can be
        connected to.
        """
        addresses = await self._checked_addresses(url)
        tls = await self._tls(url)
        reader, writer = await _connected(url, addresses, tls)
        try:
            yield reader, writer
        finally:
            # Not waited for: a server that goes on sending would hold up the one who asked.
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _checked_addresses(self, url: Url) -> list[str]:
        try:
            addresses = await fetch_addresses(url.host)
        except HostNotResolved as error:
            raise PassingFailure(f"{url}: {error}") from error
        try:
            return list(self._guard.admitted(url.host, addresses))[:_MOST_ADDRESSES]
        except AddressBlocked as error:
            raise DownloadError(f"{url}: {error}") from error

    async def _tls(self, url: Url) -> ssl.SSLContext | None:
        if url.scheme != "https":
            return None
        if self.is_insecure(url):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            pem = (await fetch_system_roots()).roots_pem
            if self._verified is None or pem != self._roots_pem:
                self._verified, self._roots_pem = roots_context(pem), pem
        except (NoSystemRoots, NoUsableRoots) as error:
            raise DownloadError(f"{url}: {error}") from error
        return self._verified


async def _connected(
    url: Url, addresses: list[str], tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    problem = "no address"
    for address in addresses:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await asyncio.open_connection(
                    address,
                    url.port,
                    ssl=tls,
                    server_hostname=url.host if tls is not None else None,
                    limit=_READ_AHEAD_BYTES,
                )
        except ssl.SSLCertVerificationError as error:
            raise DownloadError(
                f"{url}: the server's certificate does not verify: {error.verify_message}"
            ) from error
        except TimeoutError:
            problem = f"{address} does not answer within {_CONNECT_S:g} s"
        except OSError as error:
            problem = f"{address} cannot be connected to: {error.strerror or error}"
    raise PassingFailure(f"{url}: {problem}")
