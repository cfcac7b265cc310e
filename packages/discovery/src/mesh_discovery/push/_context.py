"""The push context: one model, and the resources that were made from it so far.

Resources are kept by what they depend on (`_shapes`), and a new context takes over those that the
change has not touched. What a proxy is to have is planned first (`plan`), then made (`generate`).
"""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mesh_discovery.generate._clusters import (
    black_hole,
    inbound_cluster,
    outbound_clusters,
    passthrough,
)
from mesh_discovery.generate._endpoints import empty_assignment, load_assignment
from mesh_discovery.generate._listeners import inbound_listener, outbound_listener
from mesh_discovery.generate._name_table import NAME_TABLE, name_table
from mesh_discovery.generate._routes import http_proxy_routes, port_routes
from mesh_discovery.model._model import ChangedServices, MeshModel, changed_services, same_names
from mesh_discovery.model._services import Port, Service
from mesh_discovery.model._visibility import visible_services
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._inbound import Application, InboundPlan, InboundPort, plan_inbound
from mesh_discovery.plan._outbound import Conflict, Outbound, OutboundPlan, plan_outbound
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._cache import Cache
from mesh_discovery.push._cluster_names import ClusterNames
from mesh_discovery.push._proxyless_context import ProxylessContext
from mesh_discovery.push._shapes import (
    ClusterShape,
    EndpointShape,
    ListenerShape,
    NameTableShape,
    OutboundShape,
    RouteShape,
)
from xds_server import Generated, Resource

if TYPE_CHECKING:
    from envoy.config.cluster.v3.cluster_pb2 import Cluster
    from envoy.config.listener.v3.listener_pb2 import Listener
    from envoy.config.route.v3.route_pb2 import RouteConfiguration

NOTHING = Generated(resources=())

_MOST_OF_A_NAMESPACE = 1000
"""The most values that hold something of every service and that a new context takes over."""


_ServiceKey = tuple[str, str]
"""Namespace and host."""


class _ServicePort(NamedTuple):
    namespace: str
    host: str
    port: Port


class _RouteName(NamedTuple):
    namespace: str
    domain: str
    name: str


class PushContext:
    """Everything that generators answer from, until the next push replaces it."""

    def __init__(self, model: MeshModel, *, before: "PushContext | None" = None) -> None:
        self.model = model
        self._visible = Cache[str, dict[str, Service]](most=_MOST_OF_A_NAMESPACE)
        self._inbound = Cache[Proxy, InboundPlan]()
        self._outbound = Cache[OutboundShape, OutboundPlan]()
        self._clusters = Cache[ClusterShape, Generated]()
        self._endpoints = Cache[EndpointShape, Generated]()
        self._cluster_names: ClusterNames = (
            before._cluster_names if before is not None else ClusterNames()
        )
        self._clusters_of = Cache[tuple[frozenset[str], frozenset[str]], frozenset[str]]()
        self._listeners = Cache[ListenerShape, Generated]()
        self._routes = Cache[RouteShape, Generated]()
        self._name_tables = Cache[NameTableShape, Generated]()
        self._outbound_clusters = Cache[str, tuple[Resource, ...]](most=_MOST_OF_A_NAMESPACE)
        self._service_clusters = Cache[_ServiceKey, tuple[Resource, ...]]()
        self._load_assignments = Cache[_ServicePort, Resource]()
        self._inbound_clusters = Cache[Application, Resource]()
        self._inbound_listeners = Cache[InboundPort, Resource]()
        self._outbound_listeners = Cache[Outbound, Resource]()
        self._route_configurations = Cache[_RouteName, Resource | None](most=_MOST_OF_A_NAMESPACE)
        self.proxyless = ProxylessContext(model, self._visible)
        if before is not None:
            self._adopt(before)

    # What the proxies of the model get, each all that it has asked for.

    def clusters(self, proxy: Proxy) -> Generated:
        """Return all clusters of a proxy."""
        return self._clusters.get(
            ClusterShape(proxy.namespace, self.inbound(proxy).ports), self._make_clusters
        )

    def endpoints(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the load assignments of these clusters; an unknown one's is empty."""
        return self._endpoints.get(EndpointShape(proxy.namespace, wanted), self._make_endpoints)

    def clusters_of(self, hosts: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
        """Return those of the wanted clusters that lead to one of the hosts."""
        return self._clusters_of.get((hosts, wanted), lambda key: self._cluster_names.of(*key))

    def listeners(self, proxy: Proxy) -> Generated:
        """Return all listeners of a proxy."""
        if not proxy.is_sidecar:
            return NOTHING
        shape = ListenerShape(self._outbound_shape(proxy), self.inbound(proxy).ports)
        return self._listeners.get(shape, self._make_listeners)

    def routes(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the route configurations of these names; one that can't be is left out."""
        return self._routes.get(
            RouteShape(proxy.namespace, proxy.domain, wanted), self._make_routes
        )

    def names(self, proxy: Proxy) -> Generated:
        """Return the name table of a proxy; a gateway whose agent answers no DNS has none."""
        naming = proxy.naming
        if not proxy.is_sidecar and not naming.answers_dns:
            return NOTHING
        outbound = self._outbound_shape(proxy) if naming.own_listeners else None
        return self._name_tables.get(
            NameTableShape(proxy.namespace, proxy.domain, naming, outbound), self._make_name_table
        )

    # What they are planned to have.

    def visible(self, namespace: str) -> dict[str, Service]:
        """Return the services that a namespace's proxies know, by host."""
        return self._visible.get(namespace, self._find_visible)

    def inbound(self, proxy: Proxy) -> InboundPlan:
        """Return where a proxy accepts connections for its workload."""
        return self._inbound.get(proxy, self._plan_inbound)

    def outbound(self, proxy: Proxy) -> OutboundPlan:
        """Return where a proxy listens for its workload's own calls."""
        return self._outbound.get(self._outbound_shape(proxy), self._plan_outbound)

    @property
    def conflicts(self) -> frozenset[Conflict]:
        """The services that found no place to listen, for the proxies served so far."""
        return frozenset(each for plan in self._outbound.values() for each in plan.conflicts)

    def _outbound_shape(self, proxy: Proxy) -> OutboundShape:
        taken = self.inbound(proxy).taken
        return OutboundShape(proxy.namespace, proxy.outbound_address, proxy.naming, taken)

    def _find_visible(self, namespace: str) -> dict[str, Service]:
        return visible_services(self.model.services, namespace)

    def _plan_inbound(self, proxy: Proxy) -> InboundPlan:
        return plan_inbound(proxy, self.model)

    def _plan_outbound(self, shape: OutboundShape) -> OutboundPlan:
        return plan_outbound(
            self.visible(shape.namespace).values(),
            address=shape.address,
            naming=shape.naming,
            http_proxy_port=self.model.mesh_config.proxy_http_port,
            taken=shape.taken,
        )

    # What is made of a plan, a type at a time.

    def _make_clusters(self, shape: ClusterShape) -> Generated:
        # One inbound cluster a port, though several addresses may lead to it.
        by_name = {
            names.inbound_cluster(port.number): port.application for port in reversed(shape.inbound)
        }
        inbound = [
            self._inbound_clusters.get(each, self._make_inbound_cluster)
            for _, each in sorted(by_name.items())
        ]
        outbound = self._outbound_clusters.get(shape.namespace, self._make_outbound_clusters)
        return Generated(resources=(*outbound, *self._fixed_clusters, *inbound))

    def _make_endpoints(self, shape: EndpointShape) -> Generated:
        return Generated(
            resources=tuple(
                self._endpoints_of(shape.namespace, name) for name in sorted(shape.clusters)
            )
        )

    def _make_listeners(self, shape: ListenerShape) -> Generated:
        return Generated(
            resources=(
                *(
                    self._inbound_listeners.get(each, self._make_inbound_listener)
                    for each in shape.inbound
                ),
                *(
                    self._outbound_listeners.get(each, self._make_outbound_listener)
                    for each in self._outbound.get(shape.outbound, self._plan_outbound).listeners
                ),
            )
        )

    def _make_routes(self, shape: RouteShape) -> Generated:
        found = (
            self._route_configurations.get(
                _RouteName(shape.namespace, shape.domain, name), self._make_route_configuration
            )
            for name in sorted(shape.names)
        )
        return Generated(resources=tuple(each for each in found if each is not None))

    def _make_name_table(self, shape: NameTableShape) -> Generated:
        outbound = shape.outbound
        table = name_table(
            self.visible(shape.namespace).values(),
            domain=shape.domain,
            naming=shape.naming,
            address=outbound.address if outbound is not None else "",
            listeners=frozenset(self._outbound.get(outbound, self._plan_outbound).listeners)
            if outbound is not None
            else None,
        )
        return Generated(resources=(Resource.pack(table, name=NAME_TABLE),))

    # The single resources, which proxies of different shapes share.

    @cached_property
    def _fixed_clusters(self) -> tuple[Resource, ...]:
        return tuple(_named(each) for each in (black_hole(self.model), passthrough(self.model)))

    def _make_inbound_cluster(self, application: Application) -> Resource:
        return _named(inbound_cluster(application, self.model))

    def _make_outbound_clusters(self, namespace: str) -> tuple[Resource, ...]:
        return tuple(
            resource
            for service in self.visible(namespace).values()
            for resource in self._service_clusters.get(
                (service.namespace, service.host), self._make_service_clusters
            )
        )

    def _make_service_clusters(self, key: tuple[str, str]) -> tuple[Resource, ...]:
        return tuple(map(_named, outbound_clusters(self.model.by_key[key], self.model)))

    def _make_inbound_listener(self, port: InboundPort) -> Resource:
        return _named(inbound_listener(port, self.model))

    def _make_outbound_listener(self, outbound: Outbound) -> Resource:
        return _named(outbound_listener(outbound, self.model))

    def _endpoints_of(self, namespace: str, cluster: str) -> Resource:
        parsed = names.parse_outbound_cluster(cluster)
        if parsed is not None and not parsed.subset:
            service = self.visible(namespace).get(parsed.host)
            port = service.port(parsed.port) if service is not None else None
            if service is not None and service.uses_eds and port is not None:
                key = _ServicePort(service.namespace, service.host, port)
                return self._load_assignments.get(key, self._make_load_assignment)
        return Resource.pack(empty_assignment(cluster), name=cluster)

    def _make_load_assignment(self, key: _ServicePort) -> Resource:
        service = self.model.by_key[key.namespace, key.host]
        made = load_assignment(service, key.port, self.model)
        return Resource.pack(made, name=made.cluster_name)

    def _make_route_configuration(self, key: _RouteName) -> Resource | None:
        services = self.visible(key.namespace).values()
        name = key.name
        if name == names.HTTP_PROXY_ROUTE:
            return _named(http_proxy_routes(services, self.model, proxy_domain=key.domain))
        if not (name.isascii() and name.isdecimal() and 1 <= int(name[:6]) <= 65535):
            return None
        return _named(port_routes(int(name), services, self.model, proxy_domain=key.domain))

    # What the context before made and this one would make again.

    def _adopt(self, before: "PushContext") -> None:
        old, new = before.model, self.model
        changed = changed_services(old, new)
        same = same_names(old, new, changed)
        self._name_tables.adopt(
            before._name_tables,
            where=lambda shape: same.endpoints if shape.has_endpoint_addresses else same.addresses,
        )
        self._adopt_visible(before, changed)
        if not _same_rules(old, new):
            return
        endpoints_only = {
            key
            for key, (service, now) in changed.pairs.items()
            if service is not None
            and now is not None
            and service.without_endpoints() == now.without_endpoints()
        }
        self._service_clusters.adopt_but(
            before._service_clusters, changed.pairs.keys() - endpoints_only
        )
        self._load_assignments.adopt_but(
            before._load_assignments,
            (
                _ServicePort(namespace, host, port)
                for (namespace, host), (service, _) in changed.pairs.items()
                for port in (service.ports if service is not None else ())
            ),
        )
        if changed.same_order and len(endpoints_only) == len(changed.pairs):
            # These serve many proxies each. Those of one proxy would stay after it has gone.
            self._outbound_clusters.adopt_but(before._outbound_clusters, ())
            self._route_configurations.adopt_but(before._route_configurations, ())

    def _adopt_visible(self, before: "PushContext", changed: ChangedServices) -> None:
        """Take over which services are seen where, if that is as before."""
        if not changed.same_order or any(
            service is None or now is None or service.export_to != now.export_to
            for service, now in changed.pairs.values()
        ):
            return
        for namespace, seen in before._visible.items():
            here = dict(seen)
            for (owner, host), (_, now) in changed.pairs.items():
                known = here.get(host)
                if now is not None and known is not None and known.namespace == owner:
                    here[host] = now
            self._visible.put(namespace, here)


def _named(message: "Cluster | Listener | RouteConfiguration") -> Resource:
    return Resource.pack(message, name=message.name)


def _same_rules(old: MeshModel, new: MeshModel) -> bool:
    """Tell whether equal services give equal resources in both."""
    return (
        old.mesh_config == new.mesh_config
        and old.trust_domain == new.trust_domain
        and old.policies == new.policies
    )
