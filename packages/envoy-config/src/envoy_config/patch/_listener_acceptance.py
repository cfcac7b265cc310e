"""Finds what Envoy refuses in the addresses and the filter chain matches of a patched listener.

Seen with Envoy 1.36 and 1.40.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any as Unchecked
from typing import NamedTuple

from envoy_config.generate._messages import listener_components_pb2
from envoy_config.patch._filters import Chain, Listener
from istio_config.envoy_api import is_ip

_MOST_PATH_BYTES = 107
"""Of a Unix socket on Linux."""
_SOURCES = ("source_prefix_ranges", "direct_source_prefix_ranges")


def address_mistakes(listener: Listener) -> Iterator[str]:
    """Yield what Envoy refuses in where a listener listens."""
    internal = listener.HasField("internal_listener")
    if not (listener.HasField("address") or internal):
        yield "the listener has no address"
    if listener.HasField("address") and internal:
        yield "internal_listener excludes address"
    further = [each.address for each in listener.additional_addresses]
    addresses = [*([listener.address] if listener.HasField("address") else []), *further]
    for each in addresses:
        yield from _address_mistakes(each)
        if each.HasField("pipe") and listener.enable_mptcp:
            yield "enable_mptcp is not for a Unix socket"
    by_udp = {each.socket_address.protocol for each in addresses if each.HasField("socket_address")}
    if len(by_udp) > 1:
        yield "one address is of TCP, and another of UDP"
    if any(by_udp) and listener.filter_chains and not listener.HasField("udp_listener_config"):
        yield "filter chains are not for an address of UDP"


def _address_mistakes(address: Unchecked) -> Iterator[str]:
    if address.HasField("envoy_internal_address"):
        yield "an internal address is not for a listener: internal_listener is"
    if len(address.pipe.path.encode()) > _MOST_PATH_BYTES:
        yield f"the path of a Unix socket may have {_MOST_PATH_BYTES} bytes at most"
    socket = address.socket_address
    if not address.HasField("socket_address"):
        return
    if socket.resolver_name:
        yield f"an address has the resolver {socket.resolver_name}, which Envoy does not know"
    elif not is_ip(socket.address):
        yield f"a listener needs an IP address, found {socket.address}"
    elif socket.named_port:
        yield f"a listener needs the number of a port, found {socket.named_port}"


class _Match(NamedTuple):
    """The connections that a chain is for: those that are among all of these.

    place: of the chain. sets: those that are looked at in pairs.
    """

    place: int
    sets: tuple[frozenset[str], ...]


def overlaps(chains: Sequence[Chain]) -> Iterator[str]:
    """Yield the connections for which two chains are the best match: Envoy refuses them.

    Envoy takes lists of names, protocols, addresses and ports apart, and compares the parts.
    """
    found: dict[tuple[str, ...], list[_Match]] = {}
    for place, chain in enumerate(chains):
        match = chain.filter_chain_match
        ranges = [_network(each) for each in match.prefix_ranges]
        ports = [str(each) for each in match.source_ports]
        named = [each.lower() for each in match.server_names]
        spoken = list(match.application_protocols)
        if any(len(set(each)) < len(each) for each in (ranges, ports, named, spoken)):
            yield f"the match of a filter chain has a value twice: {_text(match)}"
        sources = tuple(
            frozenset(_network(each) for each in getattr(match, field)) or frozenset({""})
            for field in _SOURCES
        )
        rest = _Match(place, (frozenset(ports) or frozenset({""}), *sources))
        for key in product(
            [_text(match)], set(named) or {""}, set(spoken) or {""}, set(ranges) or {""}
        ):
            found.setdefault(key, []).append(rest)
    reported = set()
    for parts, matches in found.items():
        for one, other in combinations(matches, 2):
            if all(a & b for a, b in zip(one.sets, other.sets, strict=True)):
                text = " ".join(each for each in parts if each) or "any connection"
                if text not in reported:
                    reported.add(text)
                    yield f"two filter chains have the same match: {text}"


def _text(match: listener_components_pb2.FilterChainMatch) -> str:
    """Return what a match says beside its lists."""
    rest = listener_components_pb2.FilterChainMatch()
    rest.CopyFrom(match)
    rest.ClearField("server_names")
    rest.ClearField("application_protocols")
    rest.ClearField("prefix_ranges")
    rest.ClearField("source_ports")
    rest.ClearField("source_prefix_ranges")
    rest.ClearField("direct_source_prefix_ranges")
    return " ".join(str(rest).split())


def _network(given: Unchecked) -> str:
    """Return a range of addresses as Envoy compares it: the bits beyond its length are none."""
    try:
        return str(ipaddress.ip_network((given.address_prefix, given.prefix_len.value), False))
    except ValueError:
        return f"{given.address_prefix}/{given.prefix_len.value}"
