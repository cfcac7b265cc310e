"""Requests by aiohttp that go to addresses which were judged, and to no others.

aiohttp asks its resolver only for names, so a host is admitted before a request is made, whatever
it looks like; the resolver then gives the addresses that were judged, without another look-up.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver
from yarl import URL

from mesh_address_guard._address_guard import AddressGuard

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

LookUp = Callable[[str], Awaitable[Sequence[str]]]


class GuardedResolver(AbstractResolver):
    """The resolver of an `aiohttp.TCPConnector`, for requests that follow no redirects.

    look_up: returns the addresses of a host, also of one that is an address. What it raises, and
        AddressBlocked, comes out of `admit`.
    """

    def __init__(self, guard: AddressGuard, look_up: LookUp) -> None:
        self._guard = guard
        self._look_up = look_up
        self._admitted: dict[str, tuple[str, ...]] = {}

    async def admit(self, url: str) -> None:
        """Look up the host of a URL for the requests that follow; raises AddressBlocked."""
        host = URL(url).raw_host or ""
        self._admitted[host] = self._guard.admitted(host, await self._look_up(host))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host that was admitted; raises OSError for another one."""
        found = self._admitted.get(host)
        if found is None:
            raise OSError(errno.EACCES, f"{host} was not admitted")
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": each,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in found
            if (each := _family(address)) and family in (socket.AF_UNSPEC, each)
        ]

    async def close(self) -> None:
        """Close nothing: there is no connection of its own."""


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
