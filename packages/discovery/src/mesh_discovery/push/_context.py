"""One push's view of the mesh: a model, and what has been generated from it.

A result is kept under what it depends on, so that proxies of one shape share the very same
resources, serialised once. A new context takes over what the change has not touched.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

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
from mesh_discovery.model._model import MeshModel, same_names
from mesh_discovery.model._services import Service
from mesh_discovery.plan import _names as names
from mesh_discovery.plan._inbound import InboundPort, inbound_ports
from mesh_discovery.plan._outbound import Conflict, Outbound, plan_outbound
from mesh_discovery.plan._proxy import Naming, Proxy
from xds_server import Generated, Resource

_T = TypeVar("_T")
_Resources = tuple[Resource, ...]

_MAX_KEPT = 50_000
"""Clients choose the names that they ask for: a bound on what that can make us remember."""


class _NamesOf(NamedTuple):
    """What the name table of a proxy depends on, beside the model."""

    namespace: str
    domain: str
    naming: Naming
    listeners: Hashable

    @property
    def by_endpoints(self) -> bool:
        """Whether services without addresses may be known by those of their endpoints."""
        return not self.naming.apart and not self.naming.families


class PushContext:
    """Everything generators answer from, until the next push replaces it."""

    def __init__(self, model: MeshModel, *, before: "PushContext | None" = None) -> None:
        self.model = model
        self.conflicts: set[Conflict] = set()
        """Services that found no place to listen, for the proxies served so far."""
        self._kept: dict[Hashable, object] = {}
        self._by_service: dict[tuple[str, str], tuple[Service, _Resources]] = {}
        self._endpoints: dict[tuple[str, str, int], tuple[Service, Resource]] = {}
        if before is not None and _same_rules(before.model, model):
            self._by_service = dict(before._by_service)
            self._endpoints = dict(before._endpoints)
        self._names: dict[_NamesOf, Generated] = {}
        if before is not None:
            self._names = _names_kept(before, model)

    def visible(self, namespace: str) -> dict[str, Service]:
        """Return the services that a namespace's proxies know, by host.

        If several namespaces define a host, a proxy's own comes first, then the oldest.
        """

        def find() -> dict[str, Service]:
            found: dict[str, Service] = {}
            for service in self.model.services:
                if not service.visible_in(namespace):
                    continue
                known = found.get(service.host)
                if known is None or (
                    known.namespace != namespace and service.namespace == namespace
                ):
                    found[service.host] = service
            return found

        return self._once(("visible", namespace), find)

    def clusters(self, proxy: Proxy) -> Generated:
        """Return all clusters of a proxy."""
        inbound = self.inbound(proxy)

        def make() -> Generated:
            fixed = self._once(
                "fixed",
                lambda: tuple(
                    _resource(each) for each in (black_hole(self.model), passthrough(self.model))
                ),
            )
            outbound = self._once(
                ("outbound clusters", proxy.namespace),
                lambda: tuple(
                    resource
                    for service in self.visible(proxy.namespace).values()
                    for resource in self._service_clusters(service)
                ),
            )
            # One inbound cluster a port, though several addresses may lead to it.
            by_name = {names.inbound_cluster(port.number): port for port in reversed(inbound)}
            own = tuple(
                self._once(
                    ("inbound cluster", port.number, port.app_address, port.protocol),
                    lambda port=port: _resource(inbound_cluster(port, self.model)),  # type: ignore[misc]
                )
                for _, port in sorted(by_name.items())
            )
            return Generated(resources=(*outbound, *fixed, *own))

        return self._once(("clusters", proxy.namespace, inbound), make)

    def endpoints(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the load assignments of these clusters; an unknown one's is empty."""
        return self._once(
            ("endpoints", proxy.namespace, wanted),
            lambda: Generated(
                resources=tuple(self._assignment(proxy.namespace, name) for name in sorted(wanted))
            ),
        )

    def listeners(self, proxy: Proxy) -> Generated:
        """Return all listeners of a proxy."""
        if not proxy.is_sidecar:
            return self._once("no listeners", lambda: Generated(resources=()))
        inbound = self.inbound(proxy)

        def make() -> Generated:
            outbound, _ = self.outbound(proxy)
            return Generated(
                resources=(
                    *(self._inbound_listener(each) for each in inbound),
                    *(self._outbound_listener(each) for each in outbound),
                )
            )

        key = (
            "listeners",
            proxy.namespace,
            proxy.outbound_address,
            proxy.app_address,
            proxy.naming,
            inbound,
        )
        return self._once(key, make)

    def routes(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the route configurations of these names; one that can't be is left out."""
        return self._once(
            ("routes", proxy.namespace, proxy.domain, wanted),
            lambda: Generated(
                resources=tuple(
                    route
                    for name in sorted(wanted)
                    if (route := self._route(name, proxy.namespace, proxy.domain)) is not None
                )
            ),
        )

    def names(self, proxy: Proxy) -> Generated:
        """Return the name table of a proxy; a gateway whose agent answers no DNS has none."""
        naming = proxy.naming
        if not proxy.is_sidecar and not naming.known:
            return self._once("no names", lambda: Generated(resources=()))
        listeners: Hashable = None
        if naming.apart:
            listeners = (proxy.outbound_address, self._taken(proxy))
        key = _NamesOf(proxy.namespace, proxy.domain, naming, listeners)
        if (known := self._names.get(key)) is not None:
            return known
        if len(self._names) >= _MAX_KEPT:
            self._names.clear()
        table = name_table(
            self.visible(proxy.namespace).values(),
            proxy,
            listeners=frozenset(self.outbound(proxy)[0]) if naming.apart else None,
        )
        made = self._names[key] = Generated(resources=(_resource(table, name=NAME_TABLE),))
        return made

    def inbound(self, proxy: Proxy) -> tuple[InboundPort, ...]:
        """Return the ports that a proxy accepts on for its workload."""
        key = (
            "inbound",
            proxy.is_sidecar,
            proxy.namespace,
            proxy.addresses,
            proxy.labels,
            proxy.app_address,
        )
        return self._once(key, lambda: inbound_ports(proxy, self.model))

    def outbound(self, proxy: Proxy) -> tuple[tuple[Outbound, ...], tuple[Conflict, ...]]:
        """Return where a proxy listens for its workload's own calls, and what found no place."""
        taken = self._taken(proxy)

        def plan() -> tuple[tuple[Outbound, ...], tuple[Conflict, ...]]:
            planned = plan_outbound(
                self.visible(proxy.namespace).values(),
                address=proxy.outbound_address,
                naming=proxy.naming,
                http_proxy_port=self.model.mesh_config.proxy_http_port,
                taken=taken,
            )
            self.conflicts.update(planned[1])
            return planned

        key = ("outbound", proxy.namespace, proxy.outbound_address, proxy.naming, taken)
        return self._once(key, plan)

    def _taken(self, proxy: Proxy) -> frozenset[tuple[str, int]]:
        """Return the places where a proxy listens for others, or its workload does."""
        return frozenset(
            place
            for port in self.inbound(proxy)
            for place in ((port.bind, port.number), (port.app_address, port.number))
        ) | {
            (proxy.app_address, endpoint.port_for(port))
            for address in proxy.addresses
            for service, endpoint in self.model.by_address.get((proxy.namespace, address), ())
            for port in service.ports
        }

    def _once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        if key not in self._kept:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]

    def _service_clusters(self, service: Service) -> _Resources:
        key = (service.namespace, service.host)
        known = self._by_service.get(key)
        if known is not None and known[0].without_endpoints() == service.without_endpoints():
            return known[1]
        made = tuple(_resource(each) for each in outbound_clusters(service, self.model))
        self._by_service[key] = (service, made)
        return made

    def _assignment(self, namespace: str, cluster: str) -> Resource:
        parsed = names.parse_outbound_cluster(cluster)
        service = self.visible(namespace).get(parsed[2]) if parsed is not None else None
        if parsed is None or service is None or parsed[1] or not service.uses_eds:
            return _resource(empty_assignment(cluster), name=cluster)
        port = next((each for each in service.ports if each.number == parsed[0]), None)
        if port is None:
            return _resource(empty_assignment(cluster), name=cluster)
        key = (service.namespace, service.host, port.number)
        known = self._endpoints.get(key)
        if known is not None and known[0] == service:
            return known[1]
        made = _resource(load_assignment(service, port, self.model), name=cluster)
        self._endpoints[key] = (service, made)
        return made

    def _inbound_listener(self, port: InboundPort) -> Resource:
        return self._once(port, lambda: _resource(inbound_listener(port, self.model)))

    def _outbound_listener(self, outbound: Outbound) -> Resource:
        return self._once(outbound, lambda: _resource(outbound_listener(outbound, self.model)))

    def _route(self, name: str, namespace: str, domain: str) -> Resource | None:
        services = self.visible(namespace).values()
        if name == names.HTTP_PROXY_ROUTE:
            return self._once(
                ("route", name, namespace, domain),
                lambda: _resource(http_proxy_routes(services, self.model, proxy_domain=domain)),
            )
        if not (name.isascii() and name.isdecimal() and 1 <= int(name[:6]) <= 65535):
            return None
        return self._once(
            ("route", name, namespace, domain),
            lambda: _resource(port_routes(int(name), services, self.model, proxy_domain=domain)),
        )


def _resource(message: object, *, name: str | None = None) -> Resource:
    return Resource.pack(message, name=name or message.name)  # type: ignore[arg-type, attr-defined]


def _names_kept(before: PushContext, model: MeshModel) -> dict[_NamesOf, Generated]:
    """Return the name tables that are the same in a new model."""
    same = same_names(before.model, model)
    return {
        key: made
        for key, made in before._names.items()
        if (same.endpoints if key.by_endpoints else same.addresses)
    }


def _same_rules(old: MeshModel, new: MeshModel) -> bool:
    """Tell whether equal services give equal resources in both."""
    return (
        old.mesh_config == new.mesh_config
        and old.trust_domain == new.trust_domain
        and old.policies == new.policies
    )
