"""The route configurations of routers: which requests go where, by the hosts of their servers.

VirtualServices of one host add up here, the oldest first; a route that takes all requests comes
after all others, so that none of them hides the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mesh_discovery.generate._messages import (
    route_components_pb2,
    route_pb2,
    wrappers_pb2,
)
from mesh_discovery.generate.routes._matches import is_catch_all
from mesh_discovery.model.virtual_services._virtual_services import VirtualService
from mesh_discovery.plan.gateway._bindings import bound_hosts
from mesh_discovery.plan.gateway._servers import PlannedServer

_MOST_BODY_BYTES = 1024 * 1024
_Host = route_components_pb2.VirtualHost

RoutesOf = Callable[[VirtualService, PlannedServer], Sequence[route_components_pb2.Route]]
"""The routes of a VirtualService at a server; none if it has none for it."""


@dataclass(slots=True)
class _Entry:
    """A host, and what is known of it so far."""

    routes: list[route_components_pb2.Route] = field(default_factory=list)
    redirects: bool = False
    has: set[tuple[VirtualService, str]] = field(default_factory=set)
    """The VirtualServices whose routes it has, each with its Gateway."""


def gateway_routes(
    name: str,
    servers: Sequence[PlannedServer],
    bound: Callable[[str], Iterable[VirtualService]],
    routes_of: RoutesOf,
) -> route_pb2.RouteConfiguration:
    """Make the route configuration of some servers; of none, an empty one.

    bound: the VirtualServices that are bound to a Gateway (`namespace/name`), in their order.
    """
    made = route_pb2.RouteConfiguration(
        name=name,
        validate_clusters=wrappers_pb2.BoolValue(value=False),
        max_direct_response_body_size_bytes=wrappers_pb2.UInt32Value(value=_MOST_BODY_BYTES),
        ignore_port_in_host_matching=True,
    )
    if not servers:
        return made
    port = servers[0].server.port.number
    entries = _entries(servers, bound, routes_of)
    made.virtual_hosts.extend(_virtual_hosts(entries, port))
    if not entries:
        made.virtual_hosts.append(_Host(name=f"blackhole:{port}", domains=["*"]))
    return made


def _entries(
    servers: Sequence[PlannedServer],
    bound: Callable[[str], Iterable[VirtualService]],
    routes_of: RoutesOf,
) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for server in servers:
        for each in bound(server.gateway_key):
            both = bound_hosts(server.hosts, namespace=each.namespace, hosts=each.hosts)
            routes = routes_of(each, server) if both else ()
            for host in both if routes else ():
                entry = entries.setdefault(host, _Entry())
                entry.redirects = entry.redirects or server.redirects
                if (each, server.gateway_key) not in entry.has:
                    entry.has.add((each, server.gateway_key))
                    entry.routes.extend(routes)
        if server.redirects:
            for own in server.hosts:
                entries.setdefault(own.host, _Entry()).redirects = True
    return entries


def _virtual_hosts(
    entries: dict[str, _Entry], port: int
) -> Iterator[route_components_pb2.VirtualHost]:
    for host, entry in sorted(entries.items()):
        made = _Host(
            name=f"{host}:{port}",
            domains=[host],
            # A stable order: only routes that take all requests move.
            routes=sorted(entry.routes, key=lambda each: is_catch_all(each.match)),
            include_request_attempt_count=True,
        )
        if entry.redirects:
            made.require_tls = _Host.TlsRequirementType.ALL
        yield made
