"""The listeners and routes of routers, planned from their Gateways, generated once a shape."""

from collections.abc import Iterator
from typing import NamedTuple

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._cache import Cache
from envoy_config.context._named import named
from envoy_config.context._scopes import MOST_SCOPES, Scopes
from envoy_config.context._shapes import RouteHeaders
from envoy_config.generate.gateway._listeners import RouterSettings, gateway_listener
from envoy_config.generate.gateway._routes import (
    PackedRoutes,
    gateway_routes,
    packed_gateway_routes,
)
from envoy_config.generate.routes._http_routes import RoutePlace, http_routes
from envoy_config.generate.routes._virtual_hosts import CONFIGURATION_TYPE
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.gateway._chains import ConnectionSources, ListenerChains, plan_chains
from envoy_config.plan.gateway._servers import (
    LeftOut,
    PlannedListener,
    PlannedServer,
    RouterPlan,
    plan_router,
)
from envoy_config.plan.gateway._target_ports import served_hosts, target_ports
from envoy_config.plan.l4._scoped import settings_in
from envoy_config.plan.l4._targets import Targets
from envoy_config.plan.policies._inbound_policies import inbound_policies
from envoy_config.plan.telemetry._telemetry import settings_of
from envoy_config.plan.virtual_hosts._targets import Target as HttpTarget
from envoy_config.plan.virtual_hosts._targets import Targets as HttpTargets
from envoy_config.plan.virtual_hosts._targets import http_targets
from istio_config.kinds.gateway import TlsMode
from istio_config.kinds.mesh_config import GatewayTopology
from mesh_model import Gateway, MeshModel, ScopeKey, Service, VirtualService
from xds_server import Generated, Resource, content_version

_EVERYWHERE = {4: "0.0.0.0", 6: "::"}  # noqa: S104 - a gateway is for all who can reach it
_NO_TOPOLOGY = GatewayTopology()


class RouterShape(NamedTuple):
    """All that the listeners and routes of a router depend on."""

    scope: ScopeKey
    gateways: tuple[str, ...]
    target_ports: tuple[tuple[int, tuple[int, ...]], ...]
    settings: RouterSettings
    unprivileged: bool


class RouterRoutes(NamedTuple):
    """A route configuration of a router."""

    shape: RouterShape
    name: str


class _VirtualServiceRoutes(NamedTuple):
    """All that the routes of a VirtualService depend on."""

    virtual_service: VirtualService
    place: RoutePlace
    targets: tuple[HttpTarget, ...]


class Routers:
    """Plans and makes the listeners and routes of one model's routers, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._model = model
        self._scopes = scopes
        self._shapes = Cache[Proxy, RouterShape]()
        self._plans = Cache[RouterShape, RouterPlan]()
        self._chains = Cache[RouterShape, tuple[tuple[PlannedListener, ListenerChains], ...]]()
        self._listeners = Cache[RouterShape, Generated]()
        self._configurations = Cache[RouterRoutes, Resource](most=MOST_SCOPES)
        self._routes = Cache[_VirtualServiceRoutes, PackedRoutes | None]()

    def listeners(self, proxy: Proxy) -> Generated:
        """Return all listeners of a router."""
        return self._listeners.get(self.shape(proxy), self._make_listeners)

    def routes(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the route configurations of these names; that of an unknown one is empty."""
        shape = self.shape(proxy)
        return Generated(
            resources=tuple(
                self._configurations.get(RouterRoutes(shape, each), self._make_configuration)
                for each in sorted(wanted)
            )
        )

    def adopt(self, before: "Routers", change: ModelChange) -> None:
        """Take over the routes of VirtualServices that the change leaves as they are."""
        if change.same_settings:
            gone = change.gone_virtual_services
            stale = (each for each in before._routes if each.virtual_service in gone)
            self._routes.adopt(before._routes, but=stale)

    def shape(self, proxy: Proxy) -> RouterShape:
        """Return the part of a router that its listeners and routes depend on."""
        return self._shapes.get(proxy, self._find_shape)

    def plan(self, shape: RouterShape) -> RouterPlan:
        """Return where routers of a shape listen, and for which servers."""
        return self._plans.get(shape, self._make_plan)

    def passes_mesh_tls(self, proxy: Proxy) -> bool:
        """Return whether a router passes TLS of the mesh on to services by clusters' names."""
        return any(
            server.tls_mode is TlsMode.AUTO_PASSTHROUGH
            for listener in self.plan(self.shape(proxy)).listeners
            for server in listener.servers
        )

    def gateways(self, proxy: Proxy) -> tuple[Gateway, ...]:
        """Return the Gateways of a router, oldest first."""
        model = self._model
        if not model.gateways.gateways:
            return ()
        return model.gateways.of_router(proxy.namespace, proxy.labels, served_hosts(proxy, model))

    @property
    def left_out(self) -> frozenset[LeftOut]:
        """The servers and routes that found no place, at the routers served so far."""
        plans = (each for plan in self._plans.values() for each in plan.left_out)
        routes = (
            each
            for listeners in self._chains.values()
            for _, chains in listeners
            for each in chains.left_out
        )
        return frozenset((*plans, *routes, *self._withheld()))

    def _withheld(self) -> Iterator[LeftOut]:
        """Yield the servers of Gateways whose selectors match routers of other namespaces alone."""
        model, shapes = self._model, tuple(self._shapes.items())
        opened = {key for _, shape in shapes for key in shape.gateways}
        for proxy, _ in shapes if model.gateways.gateways else ():
            hosts = served_hosts(proxy, model)
            for gateway in model.gateways.withheld_from(proxy.namespace, proxy.labels, hosts):
                for index in range(len(gateway.spec.servers) if gateway.key not in opened else 0):
                    reason = (
                        "a Gateway is for routers of its own namespace here, and its selector has "
                        f"one of namespace {proxy.namespace}"
                    )
                    yield LeftOut(gateway.namespace, gateway.name, index, reason)

    def _find_shape(self, proxy: Proxy) -> RouterShape:
        model = self._model
        versions = sorted({6 if ":" in each else 4 for each in proxy.addresses})
        addresses = tuple(_EVERYWHERE[each] for each in versions)
        if proxy.naming.own_listeners:
            # Its node says where: several gateways may be on one machine.
            addresses = (proxy.outbound_address,)
        settings = settings_of(proxy, model, lambda: self._scopes.for_proxy(proxy).services)
        return RouterShape(
            scope=self._scopes.key_of(proxy),
            gateways=tuple(each.key for each in self.gateways(proxy)),
            target_ports=tuple(target_ports(proxy, model).items()),
            settings=RouterSettings(
                addresses=addresses,
                topology=settings.config.gateway_topology or _NO_TOPOLOGY,
                proxy=settings,
                policies=inbound_policies(proxy, model),
            ),
            unprivileged=proxy.is_unprivileged,
        )

    def _make_plan(self, shape: RouterShape) -> RouterPlan:
        by_key = self._model.gateways.by_key
        return plan_router(
            (by_key[each] for each in shape.gateways),
            target_ports=dict(shape.target_ports),
            unprivileged=shape.unprivileged,
        )

    def _plan_chains(
        self, shape: RouterShape
    ) -> tuple[tuple[PlannedListener, ListenerChains], ...]:
        scope = self._scopes.get(shape.scope)
        virtual_services = self._model.virtual_services

        def subsets(service: Service) -> tuple[str, ...]:
            rule = scope.rule(service)
            return tuple(rule.subsets) if rule is not None else ()

        sources = ConnectionSources(
            bound=lambda key: virtual_services.of_gateway(key, shape.scope.namespace),
            services=scope.services,
            targets=Targets(scope.services, settings_in(scope, self._model)),
            subsets=subsets,
        )
        return tuple((each, plan_chains(each, sources)) for each in self.plan(shape).listeners)

    def _make_configuration(self, key: RouterRoutes) -> Resource:
        shape, name = key
        scope = self._scopes.get(shape.scope)
        virtual_services = self._model.virtual_services
        namespace, labels = shape.scope.namespace, shape.scope.labels
        headers = RouteHeaders.from_config(shape.settings.proxy.config)

        def routes_of(each: VirtualService, server: PlannedServer) -> PackedRoutes | None:
            port = server.server.port.number
            place = RoutePlace(
                port,
                server.gateway_key,
                is_tls=server.is_tls,
                forwards_host=headers.forwards_host,
            )
            if each.looks_at_source:
                place = place._replace(namespace=namespace, labels=labels)
            targets = http_targets(each.spec, port, scope)
            sources = _VirtualServiceRoutes(each, place, tuple(targets.values()))
            return self._routes.get(sources, lambda _: self._make_routes(each, place, targets))

        body = gateway_routes(
            name,
            self.plan(shape).by_route.get(name, ()),
            lambda key: virtual_services.of_gateway(key, namespace),
            routes_of,
            counts_attempts=headers.counts_attempts,
        )
        return Resource(
            name=name, type_url=CONFIGURATION_TYPE, body=body, version=content_version(body)
        )

    def _make_routes(
        self, virtual_service: VirtualService, place: RoutePlace, targets: HttpTargets
    ) -> PackedRoutes | None:
        retries = self._model.mesh_config.default_http_retry_policy
        routes = http_routes(virtual_service, place, targets, default_retries=retries)
        return packed_gateway_routes(routes)

    def _make_listeners(self, shape: RouterShape) -> Generated:
        listeners = self._chains.get(shape, self._plan_chains)
        opened = [(each, found.chains) for each, found in listeners if found.chains]
        ports = [each.address.port for each, _ in opened]
        return Generated(
            resources=tuple(
                named(
                    gateway_listener(
                        each,
                        chains,
                        self._model,
                        router=shape.settings,
                        shares_port=each.address.port > 0 and ports.count(each.address.port) > 1,
                    )
                )
                for each, chains in opened
            )
        )
