"""One route with each of its parents: where it attaches, and what it sends where."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import (
    GROUP,
    GrpcRouteSpec,
    HttpRouteSpec,
    ParentReference,
    TcpRouteSpec,
    TlsRouteSpec,
)
from istio_config.kinds.virtual_service import RouteDestination
from mesh_model.gateway_api._attachment import Attached, attach
from mesh_model.gateway_api._conditions import Condition
from mesh_model.gateway_api._listeners import BoundListener, BoundSet
from mesh_model.gateway_api._mesh_routes import MeshParent, find_mesh_parent, is_mesh_parent
from mesh_model.gateway_api._surroundings import Grants, Surroundings
from mesh_model.gateway_api._virtual_services import connection_backends
from mesh_model.gateway_api.routes._backends import BadReference, Resolver
from mesh_model.gateway_api.routes._precedence import Entry
from mesh_model.gateway_api.routes._rules import grpc_entries, http_entries

RouteSpec: TypeAlias = HttpRouteSpec | GrpcRouteSpec | TlsRouteSpec | TcpRouteSpec
GatewayKey: TypeAlias = tuple[str, str, str]
"""The kind, Gateway or ListenerSet, namespace and name."""


_OTHER = object()


class BoundGateways(NamedTuple):
    """The Gateways that are served here with their ListenerSets, and those of other classes."""

    served: Mapping[GatewayKey, Sequence[BoundListener]]
    others: frozenset[GatewayKey]
    sets: Sequence[BoundSet] = ()

    def find(self, key: GatewayKey) -> object:
        """Return what a Gateway is here: another object if it is not as it was."""
        return self.served.get(key, _OTHER if key in self.others else None)


class BoundParent(NamedTuple):
    """A parentRef: the listeners or the service that it leads to.

    is_ours: whether it is for this control plane to say how it stands.
    """

    number: int
    name: str
    accepted: Condition
    listeners: tuple[Attached, ...] = ()
    service: MeshParent | None = None
    is_ours: bool = True


class BoundRoute(NamedTuple):
    """A route with its parents and its actions: entries of HTTP, or backends of connections."""

    item: ConfigObject
    parents: tuple[BoundParent, ...]
    entries: tuple[Entry, ...]
    backends: tuple[RouteDestination, ...]
    resolved: Condition
    bad: tuple[BadReference, ...]


def bind_route(
    item: ConfigObject,
    spec: RouteSpec,
    gateways: BoundGateways,
    around: Surroundings,
    grants: Grants,
) -> BoundRoute:
    """Attach a route to its parents, and resolve its references."""
    parents = tuple(
        _bind((index, each), item, spec, gateways, around)
        for index, each in enumerate(spec.parent_refs)
    )
    resolver = Resolver(item.kind, item.namespace, around, grants)
    entries: tuple[Entry, ...] = ()
    backends: tuple[RouteDestination, ...] = ()
    if any(each.accepted.status for each in parents):
        match spec:
            case HttpRouteSpec():
                entries = tuple(http_entries(item, spec, resolver))
            case GrpcRouteSpec():
                entries = tuple(grpc_entries(item, spec, resolver))
            case TlsRouteSpec() | TcpRouteSpec():
                backends = connection_backends(spec, resolver)
    return BoundRoute(item, parents, entries, backends, resolver.condition, tuple(resolver.bad))


def _bind(
    numbered: tuple[int, ParentReference],
    item: ConfigObject,
    spec: RouteSpec,
    gateways: BoundGateways,
    around: Surroundings,
) -> BoundParent:
    number, parent = numbered
    group, kind, namespace, name = parent.target(item.namespace)
    described = f"{kind} {namespace}/{name}"
    if is_mesh_parent(parent):
        service, accepted = find_mesh_parent(parent, item.namespace, around)
        return BoundParent(number, described, accepted, service=service)
    key = kind, namespace, name
    if group != GROUP or kind not in ("Gateway", "ListenerSet"):
        message = f"a {kind} of the group {group or 'core'} can't be a parent here"
        return BoundParent(number, described, Condition("Accepted", False, "InvalidKind", message))
    listeners = gateways.served.get(key)
    if listeners is None:
        is_ours = key not in gateways.others
        message = f"there is no {described}"
        refused = Condition("Accepted", False, "NoMatchingParent", message)
        return BoundParent(number, described, refused, is_ours=is_ours)
    hostnames = spec.hostnames if not isinstance(spec, TcpRouteSpec) else ()
    found = attach(item, parent, hostnames, listeners, around)
    return BoundParent(number, described, found.accepted, listeners=found.listeners)
