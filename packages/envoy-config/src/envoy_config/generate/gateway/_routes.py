"""The route configurations of routers: which requests go where, by the hosts of their servers.

VirtualServices of one host add up here, the oldest first; a route that takes all requests comes
after all others, so that none of them hides the rest. Routes are serialised once for all hosts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from envoy_config.generate._messages import route_components_pb2
from envoy_config.generate.routes._matches import is_catch_all
from envoy_config.generate.routes._virtual_hosts import (
    packed_names,
    packed_routes,
    packed_settings,
    route_configuration,
    virtual_host,
)
from envoy_config.plan.gateway._bindings import bound_hosts
from envoy_config.plan.gateway._servers import PlannedServer
from istio_config.addresses import bracketed
from mesh_model import VirtualService


class PackedRoutes(NamedTuple):
    """The routes of a VirtualService, serialised: those of all requests apart from the others."""

    some: bytes
    rest: bytes


RoutesOf = Callable[[VirtualService, PlannedServer], PackedRoutes | None]
"""The routes of a VirtualService at a server; None if it has none for it."""


@dataclass(slots=True)
class _Entry:
    """A host, and what is known of it so far."""

    routes: list[PackedRoutes] = field(default_factory=list)
    redirects: bool = False
    has: set[tuple[VirtualService, str]] = field(default_factory=set)
    """The VirtualServices whose routes it has, each with its Gateway."""
    given: set[tuple[VirtualService, PackedRoutes]] = field(default_factory=set)
    """The same routes come by each of several Gateways, unless they say which."""


def packed_gateway_routes(
    routes: Sequence[route_components_pb2.Route],
) -> PackedRoutes | None:
    """Serialise the routes of a VirtualService; None if there are none."""
    if not routes:
        return None
    return PackedRoutes(
        some=packed_routes(each for each in routes if not is_catch_all(each.match)),
        rest=packed_routes(each for each in routes if is_catch_all(each.match)),
    )


def gateway_routes(
    name: str,
    servers: Sequence[PlannedServer],
    bound: Callable[[str], Iterable[VirtualService]],
    routes_of: RoutesOf,
    *,
    counts_attempts: bool,
) -> bytes:
    """Return the route configuration of some servers, serialised; of none, an empty one.

    bound: the VirtualServices that are bound to a Gateway (`namespace/name`), in their order.
    counts_attempts: upstreams are sent how often a request was tried.
    """
    if not servers:
        return route_configuration(name, ())
    port = servers[0].server.port.number
    entries = _entries(servers, bound, routes_of)
    if not entries:
        return route_configuration(
            name, [virtual_host(packed_names(f"blackhole:{port}", ["*"]), b"")]
        )
    hosts = _virtual_hosts(entries, port, counts_attempts=counts_attempts)
    return route_configuration(name, hosts)


def _entries(
    servers: Sequence[PlannedServer],
    bound: Callable[[str], Iterable[VirtualService]],
    routes_of: RoutesOf,
) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for server in servers:
        for each in bound(server.gateway_key):
            both = bound_hosts(server.hosts, each, gateway_namespace=server.namespace)
            routes = routes_of(each, server) if both else None
            for host in both if routes is not None else ():
                entry = entries.setdefault(host, _Entry())
                entry.redirects = entry.redirects or server.redirects
                if routes is not None and (each, server.gateway_key) not in entry.has:
                    entry.has.add((each, server.gateway_key))
                    if (each, routes) not in entry.given:
                        entry.given.add((each, routes))
                        entry.routes.append(routes)
        if server.redirects:
            for own in server.hosts:
                entries.setdefault(own.host, _Entry()).redirects = True
    return entries


def _virtual_hosts(
    entries: dict[str, _Entry], port: int, *, counts_attempts: bool
) -> Iterator[bytes]:
    plain = packed_settings(counts_attempts=counts_attempts)
    redirecting = packed_settings(counts_attempts=counts_attempts, needs_tls=True)
    for host, entry in sorted(entries.items()):
        routes = (*(each.some for each in entry.routes), *(each.rest for each in entry.routes))
        yield virtual_host(
            packed_names(f"{host}:{port}", [bracketed(host)]),
            b"".join(routes),
            redirecting if entry.redirects else plain,
        )
