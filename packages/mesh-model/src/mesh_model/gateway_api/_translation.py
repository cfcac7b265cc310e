"""All objects of the Gateway API of a mesh, as Gateways and VirtualServices of Istio's.

A translation is built again when one of the objects changed, or something else of the mesh that it
looked at; objects that it gives as before are the same objects as before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge

from istio_config import ConfigObject, Snapshot
from istio_config.kinds.gateway_api import (
    CONTROLLER,
    DEFAULT_CLASS,
    GATEWAY_API_KINDS,
    BackendTlsPolicySpec,
    GatewayClassSpec,
    GatewaySpec,
    GrpcRouteSpec,
    HttpRouteSpec,
    ListenerSetSpec,
    TcpRouteSpec,
    TlsRouteSpec,
)
from istio_config.kinds.kubernetes import NAMESPACE
from mesh_configfile import Problem
from mesh_model._services import Service
from mesh_model._visibility import HostOwners
from mesh_model.gateway_api._backend_policies import applied
from mesh_model.gateway_api._bound_routes import BoundGateways, BoundRoute, GatewayKey
from mesh_model.gateway_api._conditions import ObjectStatus
from mesh_model.gateway_api._http_tables import (
    HttpAttached,
    http_virtual_services,
    without_mixed_kinds,
)
from mesh_model.gateway_api._known import Known
from mesh_model.gateway_api._listener_sets import is_set_of
from mesh_model.gateway_api._listeners import BoundListener, BoundSet, server_object
from mesh_model.gateway_api._mesh_routes import MeshAttached, mesh_virtual_services
from mesh_model.gateway_api._status import Refused, statuses_of, warnings_of
from mesh_model.gateway_api._surroundings import Grants, MeshFacts
from mesh_model.gateway_api._virtual_services import (
    ConnectionAttached,
    connection_virtual_services,
    without_taken_hosts,
)
from mesh_model.secrets import Secrets


@dataclass(frozen=True, kw_only=True)
class GatewayApi:
    """A translation; `of` makes it."""

    gateways: tuple[ConfigObject, ...] = ()
    """Istio's Gateways, one for each listener that is served."""
    virtual_services: tuple[ConfigObject, ...] = ()
    destination_rules: tuple[ConfigObject, ...] = ()
    """The TLS of backends, by BackendTLSPolicies."""
    statuses: tuple[ObjectStatus, ...] = ()
    """How each Gateway and each route stands."""
    warnings: tuple[Problem, ...] = ()
    """Everything that is not as configured, with its file."""
    objects: tuple[ConfigObject, ...] = field(default=(), repr=False)
    known: Known | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        objects: Iterable[ConfigObject],
        facts: MeshFacts,
        before: "GatewayApi | None" = None,
    ) -> "GatewayApi":
        """Translate objects of the Gateway API's kinds; before: the translation that was served."""
        objects = tuple(objects)
        if before is not None and before._is_for(objects, facts):
            return before
        if not objects:
            return NO_GATEWAY_API
        return _translated(objects, facts, before or NO_GATEWAY_API)

    def _is_for(self, objects: tuple[ConfigObject, ...], facts: MeshFacts) -> bool:
        if len(self.objects) != len(objects):
            return False
        if any(old is not new for old, new in zip(self.objects, objects, strict=True)):
            return False
        return self.known is None or self.known.hold_in(facts)


NO_GATEWAY_API = GatewayApi()


def _translated(
    objects: tuple[ConfigObject, ...], facts: MeshFacts, before: GatewayApi
) -> GatewayApi:
    known = Known(Grants(objects), facts, before.known)
    gateways = _bound_gateways(objects, known)
    routes = [
        known.route(each, each.spec, gateways)
        for each in objects
        if isinstance(each.spec, HttpRouteSpec | GrpcRouteSpec | TlsRouteSpec | TcpRouteSpec)
    ]
    http, mixed = without_mixed_kinds(_http_attached(routes))
    connections, taken = without_taken_hosts(tuple(_connections_attached(routes)))
    refused = frozenset(
        Refused(item.kind, item.namespace, item.name, bound.key)
        for item, bound in (
            *((each.item, each.bound) for each in mixed),
            *((each.item, each.bound) for each in taken),
        )
    )
    served = [each for of_one in gateways.served.values() for each in of_one if each.is_served]
    hosts: dict[str, list[str]] = {}
    for each in connections:
        if each.bound.listener.terminates:
            hosts.setdefault(each.bound.key, []).extend(each.hosts)
    policies = applied(
        known.policy(each, each.spec)
        for each in objects
        if isinstance(each.spec, BackendTlsPolicySpec)
    )
    statuses = statuses_of(objects, gateways, routes, refused)
    translated = GatewayApi(
        gateways=_kept(
            (server_object(each, hosts.get(each.key, ()), facts.domain) for each in served),
            before.gateways,
        ),
        virtual_services=_kept(
            (
                *http_virtual_services(http, served, known),
                *connection_virtual_services(connections),
                *mesh_virtual_services(_mesh_attached(routes)),
            ),
            before.virtual_services,
        ),
        destination_rules=_kept(policies.rules, before.destination_rules),
        statuses=(*statuses, *policies.statuses),
        warnings=(
            *warnings_of(objects, statuses, routes, gateways.others),
            *(
                item.problem(bad.path, f"{bad.message} ({bad.reason})")
                for item, bad in policies.bad
            ),
        ),
        objects=objects,
        known=known,
    )
    known.finished()
    return translated


def _bound_gateways(objects: Sequence[ConfigObject], known: Known) -> BoundGateways:
    classes = {DEFAULT_CLASS: CONTROLLER} | {
        each.name: each.spec.controller_name
        for each in objects
        if isinstance(each.spec, GatewayClassSpec)
    }
    served: dict[GatewayKey, Sequence[BoundListener]] = {}
    others: set[GatewayKey] = set()
    sets: list[BoundSet] = []
    all_sets = [each for each in objects if isinstance(each.spec, ListenerSetSpec)]
    for each in objects:
        if isinstance(each.spec, GatewaySpec):
            own = tuple(one for one in all_sets if is_set_of(each, one))
            if classes.get(each.spec.gateway_class_name) == CONTROLLER:
                bound = known.gateway(each, each.spec, own)
                served[_key(each)] = bound.listeners
                served |= {_key(one.item): one.listeners for one in bound.of_sets}
                sets += bound.of_sets
            else:
                others |= {_key(one) for one in (each, *own)}
    return BoundGateways(served, frozenset(others), sets)


def _key(item: ConfigObject) -> GatewayKey:
    return item.kind, item.namespace, item.name


def _http_attached(routes: Iterable[BoundRoute]) -> Iterator[HttpAttached]:
    for route in routes:
        if route.entries:
            for bound, hosts in _listeners(route).values():
                yield HttpAttached(route.item, bound, hosts, route.entries)


def _connections_attached(routes: Iterable[BoundRoute]) -> Iterator[ConnectionAttached]:
    for route in routes:
        if not route.entries and isinstance(route.item.spec, TlsRouteSpec | TcpRouteSpec):
            for bound, hosts in _listeners(route).values():
                yield ConnectionAttached(route.item, bound, hosts, route.backends)


def _listeners(route: BoundRoute) -> Mapping[str, tuple[BoundListener, tuple[str, ...]]]:
    """Return the served listeners of a route, each once, however many parentRefs lead to it."""
    return {
        each.bound.key: (each.bound, each.hosts)
        for parent in route.parents
        for each in parent.listeners
        if each.bound.is_served
    }


def _mesh_attached(routes: Iterable[BoundRoute]) -> Iterator[MeshAttached]:
    for route in routes:
        for parent in route.parents:
            if parent.service is not None:
                yield MeshAttached(route.item, parent.service, route.entries, route.backends)


def _kept(
    built: Iterable[ConfigObject], before: Iterable[ConfigObject]
) -> tuple[ConfigObject, ...]:
    """Return the objects, oldest first, the same as before where they are equal."""
    known = {each.key: each for each in before}
    found: list[ConfigObject] = []
    for each in built:
        old = known.get(each.key)
        found.append(old if old is not None and (old is each or old == each) else each)
    return tuple(
        sorted(found, key=lambda each: (each.created or "9999", each.name, each.namespace))
    )


def gateway_api_of(
    snapshot: Snapshot,
    *,
    services: Mapping[tuple[str, str], Service],
    secrets: Secrets,
    domain: str,
    owners: HostOwners,
    before: GatewayApi | None = None,
) -> GatewayApi:
    """Translate the objects of a snapshot.

    services: by namespace and host. owners: the namespace that owns each host. before: the
    previous model's translation.
    """
    objects = tuple(each for kind in GATEWAY_API_KINDS for each in snapshot.of_kind(kind))
    if not objects:
        return NO_GATEWAY_API
    facts = MeshFacts(
        services=services,
        namespaces=snapshot.of_kind(NAMESPACE),
        secrets=secrets,
        domain=domain,
        owners=owners,
    )
    return GatewayApi.build(objects, facts, before)


def oldest_first(
    objects: Sequence[ConfigObject], translated: Sequence[ConfigObject]
) -> tuple[ConfigObject, ...]:
    """Merge objects with those of a translation, both oldest first."""
    if not translated:
        return tuple(objects)
    return tuple(merge(objects, translated, key=_age))


def _age(item: ConfigObject) -> tuple[str, str, str]:
    return item.created or "9999", item.name, item.namespace
