"""VirtualServices that are built from routes: what all have in common, and those of TLS and TCP.

At a TLS or TCP listener each host is that of the oldest route.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import TcpRouteSpec, TlsRouteSpec
from istio_config.kinds.virtual_service import (
    RouteDestination,
    TcpRoute,
    TlsMatch,
    TlsRoute,
    VirtualServiceSpec,
)
from mesh_configfile import FieldPath
from mesh_model.gateway_api._listeners import BoundListener
from mesh_model.gateway_api.routes._backends import Resolver
from mesh_model.virtual_services._virtual_services import GATEWAY_SEMANTICS


def virtual_service(
    sources: Sequence[ConfigObject], *, namespace: str, name: str, spec: VirtualServiceSpec
) -> ConfigObject:
    """Return the VirtualService of these routes; its age is that of the oldest."""
    oldest = min(sources, key=age)
    return ConfigObject(
        kind="VirtualService",
        group="networking.istio.io",
        namespace=namespace,
        name=name,
        spec=spec,
        annotations=(GATEWAY_SEMANTICS,),
        created=oldest.created,
        origin=oldest.origin,
    )


def age(item: ConfigObject) -> tuple[str, str, str]:
    """Return the key by which routes are ordered, oldest first, then by namespace and name."""
    return item.created or "9999", f"{item.namespace}/{item.name}", item.kind


class ConnectionAttached(NamedTuple):
    """A route at a listener, for some hosts."""

    item: ConfigObject
    bound: BoundListener
    hosts: tuple[str, ...]
    route: tuple[RouteDestination, ...]


def connection_backends(
    spec: TlsRouteSpec | TcpRouteSpec, resolver: Resolver
) -> tuple[RouteDestination, ...]:
    """Return the backends of the connections; those that lead nowhere close them."""
    place: FieldPath = ("spec", "rules", 0, "backendRefs")
    found = []
    for index, each in enumerate(spec.rules[0].backend_refs):
        resolved = resolver.resolve(each, (*place, index))
        if each.weight:
            found.append(RouteDestination(destination=resolved.destination, weight=each.weight))
    return tuple(found)


def without_taken_hosts(
    attached: Sequence[ConnectionAttached],
) -> tuple[list[ConnectionAttached], list[ConnectionAttached]]:
    """Return what is accepted, and what has no host left that no older route has."""
    taken: set[tuple[str, str]] = set()
    accepted: list[ConnectionAttached] = []
    refused: list[ConnectionAttached] = []
    for each in sorted(attached, key=lambda one: age(one.item)):
        free = tuple(host for host in each.hosts if (each.bound.key, host) not in taken)
        taken |= {(each.bound.key, host) for host in free}
        if free:
            accepted.append(each._replace(hosts=free))
        else:
            refused.append(each)
    return accepted, refused


def connection_virtual_services(
    attached: Sequence[ConnectionAttached],
) -> Iterator[ConfigObject]:
    """Yield a VirtualService for each route at a listener."""
    for each in attached:
        bound = each.bound
        tls: tuple[TlsRoute, ...] = ()
        tcp: tuple[TcpRoute, ...] = ()
        if each.route and not bound.listener.terminates and bound.listener.protocol == "TLS":
            tls = (TlsRoute(match=(TlsMatch(sni_hosts=each.hosts),), route=each.route),)
        elif each.route:
            tcp = (TcpRoute(route=each.route),)
        yield virtual_service(
            [each.item],
            namespace=bound.gateway.namespace,
            name=f"{bound.name}.{each.item.kind}.{each.item.namespace}.{each.item.name}",
            spec=VirtualServiceSpec(
                hosts=each.hosts, gateways=(bound.key,), tls=tls, tcp=tcp, export_to=("*",)
            ),
        )
