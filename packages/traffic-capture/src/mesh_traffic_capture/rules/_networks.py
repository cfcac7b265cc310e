"""Networks by address family, as rules match them."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from mesh_traffic_capture.config import (
    LOOPBACK_IPV6,
    PASSED_ON_IPV4,
    PASSED_ON_IPV6,
    CaptureConfig,
    IPAddress,
    IPNetwork,
)
from mesh_traffic_capture.rules._rule import Family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def address_families(config: CaptureConfig) -> tuple[Family, ...]:
    """Return the address families that are redirected."""
    return (Family.IPV4, Family.IPV6) if config.ipv6 else (Family.IPV4,)


def loopback(config: CaptureConfig, family: Family) -> IPNetwork:
    """Return the destinations that are the machine itself."""
    return config.loopback if family is Family.IPV4 else LOOPBACK_IPV6


def passed_on(family: Family) -> IPNetwork:
    """Return the source address of inbound connections that Envoy passes on."""
    return ip_network(PASSED_ON_IPV4 if family is Family.IPV4 else PASSED_ON_IPV6)


def by_family(
    config: CaptureConfig, networks: Iterable[IPNetwork | IPAddress]
) -> Iterator[tuple[Family, tuple[IPNetwork, ...]]]:
    """Yield the networks of each address family that has some; none lies in another.

    No network is left of a family in which all addresses are meant.
    """
    given = [ip_network(each) for each in networks]
    for family in address_families(config):
        merged = merge(each for each in given if each.version == family)
        if merged:
            yield family, () if merged[0].prefixlen == 0 else merged


def merge(networks: Iterable[IPNetwork]) -> tuple[IPNetwork, ...]:
    """Return the fewest networks with the same addresses, in order; all of one address family."""
    given = list(networks)
    fours = [each for each in given if isinstance(each, IPv4Network)]
    sixes = [each for each in given if isinstance(each, IPv6Network)]
    return (*collapse_addresses(fours), *collapse_addresses(sixes))
