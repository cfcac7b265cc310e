"""Judges addresses, never names: a name leads wherever its owner says at the moment.

So the one who connects looks a name up once, has the addresses judged, and connects to one of
them. An IPv6 address that leads to an IPv4 address is judged as both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

IpNetwork: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address


def _networks(*texts: str) -> tuple[IpNetwork, ...]:
    return tuple(ip_network(text) for text in texts)


METADATA: Final = _networks(
    "169.254.0.0/16",  # link-local; most clouds' metadata services, and credentials of pods
    "fe80::/10",
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google Cloud
    "100.100.100.200/32",  # Alibaba Cloud
    "168.63.129.16/32",  # Azure's WireServer, which has certificates and settings of the machine
    "192.0.0.192/32",  # Oracle Cloud
)
"""Metadata services of clouds, and all link-local addresses: no request is ever meant for them."""

THIS_MACHINE: Final = _networks("127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128")
"""The addresses at which a program listens that trusts its own machine."""

_EMBEDDING: Final[Mapping[IPv6Network, tuple[int, ...]]] = {
    IPv6Network("64:ff9b::/96"): (96,),  # RFC 6052: a gateway makes IPv4 of it
    IPv6Network("64:ff9b:1::/48"): (48, 56, 64, 96),  # RFC 8215: with any of these prefixes
    IPv6Network("::ffff:0:0:0/96"): (96,),  # RFC 2765, stateless translation
}
_COMPATIBLE = IPv6Network("::/96")  # RFC 4291 2.5.5.1, deprecated
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to connect to; the kernel does the same


class AddressBlocked(Exception):
    """No address of a host may be connected to; the message names the host, addresses, networks."""

    def __init__(self, host: str, blocked: Mapping[str, str]) -> None:
        blocked_addresses = ", ".join(
            f"{address} is in {network}" for address, network in blocked.items()
        )
        super().__init__(f"{host} is at a blocked address: {blocked_addresses or 'it has none'}")
        self.host = host


class AddressGuard:
    """Says which addresses are blocked: those of `METADATA` always, and further networks.

    blocked: further networks.
    allowed: networks that `blocked` does not concern. Metadata services stay blocked in them.
    """

    def __init__(
        self, *, blocked: Iterable[IpNetwork] = (), allowed: Iterable[IpNetwork] = ()
    ) -> None:
        self._blocked = tuple(blocked)
        self._allowed = tuple(allowed)

    def blocks(self, address: str) -> str | None:
        """Return the network for which an address is blocked, None if it may be connected to.

        An address that cannot be read is blocked.
        """
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return "unknown addresses"
        for meant in _meant(parsed):
            network = _found(meant, METADATA)
            if network is None and _found(meant, self._allowed) is None:
                network = _found(meant, self._blocked)
            if network is not None:
                return str(network)
        return None

    def admitted(self, host: str, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return those of a host's addresses that may be connected to.

        Raises AddressBlocked if there is none.
        """
        blocked: dict[str, str] = {}
        allowed: list[str] = []
        for each in addresses:
            if (network := self.blocks(each)) is None:
                allowed.append(each)
            else:
                blocked[each] = network
        if not allowed:
            raise AddressBlocked(host, blocked)
        return tuple(allowed)


class NotANetwork(ValueError):
    """A text that names no network; the message quotes it."""


def parse_networks(text: str) -> tuple[IpNetwork, ...]:
    """Read networks such as `10.0.0.0/8,::1` with commas between them; raises NotANetwork.

    An address alone is a network of that address.
    """
    found: list[IpNetwork] = []
    for item in filter(None, map(str.strip, text.split(","))):
        try:
            found.append(ip_network(item, strict=False))
        except ValueError:
            raise NotANetwork(f"{item!r} is no network such as 10.0.0.0/8") from None
    return tuple(found)


def _found(address: Address, networks: Iterable[IpNetwork]) -> IpNetwork | None:
    for each in networks:
        if each.version == address.version and address in each:
            return each
    return None


def _meant(address: Address) -> Iterator[Address]:
    """Yield an address, and those to which a packet for it may come."""
    yield address
    if (here := _HERE.get(str(address))) is not None:
        yield ip_address(here)
    if isinstance(address, IPv4Address):
        return
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            yield inner
    for network, prefixes in _EMBEDDING.items():
        if address in network:
            yield from (_embedded(address, prefix) for prefix in prefixes)
    if address in _COMPATIBLE and int(address) > 0xFFFF:
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _embedded(address: IPv6Address, prefix: int) -> IPv4Address:
    """Return the IPv4 address behind a prefix of so many bits; RFC 6052 2.2 leaves out byte 8."""
    octets = address.packed[:8] + address.packed[9:] if prefix < 96 else address.packed
    start = prefix // 8
    return IPv4Address(octets[start : start + 4])
