"""The listeners of sidecars, each generated once for all proxies that have it."""

from functools import partial
from typing import NamedTuple

from envoy_config.context._cache import Cache
from envoy_config.context._named import named
from envoy_config.context._scopes import Scopes
from envoy_config.context._shapes import ListenerShape, OutboundShape
from envoy_config.generate.listeners._bound import inbound_listener, outbound_listener
from envoy_config.plan._inbound import InboundPlan, InboundPort, plan_inbound
from envoy_config.plan._outbound import (
    Conflict,
    HttpOutbound,
    Outbound,
    OutboundPlan,
    plan_outbound,
)
from envoy_config.plan._proxy import Proxy
from envoy_config.plan._proxy_settings import MOST_COUNTED, ProxySettings
from envoy_config.plan.l4._chains import TcpChain
from envoy_config.plan.l4._scoped import routes_in, targets_in
from envoy_config.plan.policies._inbound_policies import InboundPolicies, inbound_policies
from envoy_config.plan.telemetry._telemetry import settings_of
from mesh_model import MeshModel
from xds_server import Generated, Resource


class _Routed(NamedTuple):
    """A listener, and the chains of it that VirtualServices or DestinationRules make."""

    listener: Outbound
    chains: tuple[TcpChain, ...]
    settings: ProxySettings


class _Inbound(NamedTuple):
    port: InboundPort
    settings: ProxySettings
    policies: InboundPolicies


class Listeners:
    """Plans and makes the listeners of one model's sidecars, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._model = model
        self._scopes = scopes
        self._inbound_plans = Cache[Proxy, InboundPlan]()
        self._outbound_plans = Cache[OutboundShape, OutboundPlan]()
        self._of_shape = Cache[ListenerShape, Generated]()
        self._inbound = Cache[_Inbound, Resource]()
        self._outbound = Cache[_Routed, Resource]()

    def for_proxy(self, proxy: Proxy) -> Generated:
        """Return all listeners of a sidecar."""
        shape = ListenerShape(
            self.outbound_shape(proxy),
            self.inbound(proxy).ports,
            settings_of(proxy, self._model, lambda: self._scopes.for_proxy(proxy).services),
            inbound_policies(proxy, self._model),
        )
        return self._of_shape.get(shape, self._make)

    def inbound(self, proxy: Proxy) -> InboundPlan:
        """Return where a proxy accepts connections for its workload."""
        return self._inbound_plans.get(proxy, self._plan_inbound)

    def outbound(self, shape: OutboundShape) -> OutboundPlan:
        """Return where the proxies of a shape listen for their workloads' own calls."""
        return self._outbound_plans.get(shape, self._plan_outbound)

    def outbound_shape(self, proxy: Proxy) -> OutboundShape:
        """Return the part of a proxy that its outbound listeners depend on."""
        inbound = self.inbound(proxy)
        return OutboundShape(
            self._scopes.key_of(proxy),
            proxy.outbound_address,
            proxy.naming,
            inbound.taken,
            inbound.own,
        )

    @property
    def conflicts(self) -> frozenset[Conflict]:
        """The services that found no place to listen, for the proxies served so far."""
        return frozenset(each for plan in self._outbound_plans.values() for each in plan.conflicts)

    @property
    def only_by_http_proxy(self) -> frozenset[Conflict]:
        """The services that are reached through the HTTP proxy alone, for the proxies so far."""
        plans = self._outbound_plans.values()
        return frozenset(each for plan in plans for each in plan.only_by_http_proxy)

    def _plan_inbound(self, proxy: Proxy) -> InboundPlan:
        return plan_inbound(proxy, self._model, self._scopes.for_proxy(proxy).sidecar)

    def _plan_outbound(self, shape: OutboundShape) -> OutboundPlan:
        scope = self._scopes.get(shape.scope)
        return plan_outbound(
            scope.egress,
            address=shape.address,
            naming=shape.naming,
            http_proxy_port=self._model.mesh_config.proxy_http_port,
            taken=shape.taken,
            own=shape.own,
            routes=partial(routes_in, scope),
            targets=targets_in(scope, self._model),
        )

    def _make(self, shape: ListenerShape) -> Generated:
        inbound = (
            self._inbound.get(_Inbound(each, shape.settings, shape.policies), self._make_inbound)
            for each in shape.inbound
        )
        plan = self.outbound(shape.outbound)
        settings = of_connections = shape.settings
        if len(plan.listeners) > MOST_COUNTED:
            of_connections = settings.without_metrics_of_calls()
        outbound = (
            self._outbound.get(
                _Routed(
                    each,
                    plan.chains.get(each, ()),
                    settings if isinstance(each, HttpOutbound) else of_connections,
                ),
                self._make_outbound,
            )
            for each in plan.listeners
        )
        return Generated(resources=(*inbound, *outbound))

    def _make_inbound(self, key: "_Inbound") -> Resource:
        return named(inbound_listener(key.port, self._model, key.settings, key.policies))

    def _make_outbound(self, routed: _Routed) -> Resource:
        listener, chains, settings = routed
        return named(outbound_listener(listener, self._model, settings, chains=chains))
