"""Routes that outbound rules need: the kernel looks for one before it asks them; pure."""

from __future__ import annotations

from ipaddress import ip_address

from mesh_traffic_capture.config import ALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from mesh_traffic_capture.config import CaptureConfig, IPAddress

_ELSEWHERE: Final = {4: ip_address("198.51.100.1"), 6: ip_address("2001:db8::1")}
"""Addresses of documentation (RFC 5737, RFC 3849): only a default route leads there."""


def route_notes(config: CaptureConfig, route: Callable[[IPAddress], str | None]) -> Iterator[str]:
    """Yield a sentence for each address family whose outbound traffic does not get to the rules."""
    for version in (4, 6) if config.ipv6 else (4,):
        addresses: list[IPAddress] = []
        if config.outbound_ranges is not ALL:
            addresses += [each[-1] for each in config.outbound_ranges if each.version == version]
        if config.outbound_ranges is ALL or config.outbound_ports:
            addresses = [_ELSEWHERE[version]]
        ways = {route(each) for each in addresses[:20]}
        if ways == {None}:
            yield (
                f"IPv{version} has no default route: the kernel looks for a route before it asks "
                "the rules, so calls fail at once and never get to the proxy; add one, over any "
                f"interface but lo (ip -{version} route add default dev eth0)"
            )
        elif ways == {"lo"}:
            yield (
                f"the default route of IPv{version} is over lo, which the rules take for calls of "
                "oneself: they hang and never get to the proxy; have it over another interface "
                f"(ip -{version} route replace default dev eth0)"
            )
