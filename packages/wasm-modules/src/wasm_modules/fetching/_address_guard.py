"""The addresses that are never connected to, because a URL must not lead there.

A configuration's author may name any URL, and the agent can reach more than the author: above all
the metadata services of clouds, which give credentials to any caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias

from wasm_modules._config import IpNetwork

Address: TypeAlias = IPv4Address | IPv6Address

ALWAYS_BLOCKED: Final[tuple[IpNetwork, ...]] = tuple(
    ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "fd00:ec2::/32")
)

_TRANSLATED = ip_network("64:ff9b::/96")  # RFC 6052: a gateway makes IPv4 of it
_COMPATIBLE = ip_network("::/96")  # RFC 4291 2.5.5.1, deprecated
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to connect to; the kernel does the same


class AddressGuard:
    """Says which addresses are blocked."""

    def __init__(self, further: Iterable[IpNetwork] = ()) -> None:
        self._blocked = (*ALWAYS_BLOCKED, *further)

    def blocks(self, text: str) -> str | None:
        """Return the network for which an address is blocked, None if it may be connected to.

        An IPv6 address that leads to an IPv4 address is judged as both. An address that cannot be
        read is blocked.
        """
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return "unknown addresses"
        for each in _meant(address):
            for network in self._blocked:
                if each.version == network.version and each in network:
                    return str(network)
        return None


def _meant(address: Address) -> Iterator[Address]:
    yield address
    if (here := _HERE.get(str(address))) is not None:
        yield ip_address(here)
    if isinstance(address, IPv4Address):
        return
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            yield inner
    if address in _TRANSLATED or (address in _COMPATIBLE and int(address) > 0xFFFF):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
