"""The listeners of redirected sidecars.

The outbound ones are planned for all proxies that know the same, and each is generated once for as
long as it stays what it is: an edit makes those that it touches. One inbound listener serves all
proxies whose workloads accept the same.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._cache import MOST_RESOURCES, Cache
from envoy_config.context._named import named
from envoy_config.context._scopes import MOST_OWN, MOST_SCOPES, Scopes
from envoy_config.context._shapes import RedirectedListenerShape, RedirectedOutboundShape
from envoy_config.generate.listeners._redirected_inbound import bound_inbound, virtual_inbound
from envoy_config.generate.listeners._redirected_outbound import (
    redirected_outbound,
    virtual_outbound,
)
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._outbound import Conflict
from envoy_config.plan._proxy import Naming, Proxy
from envoy_config.plan._proxy_settings import MOST_COUNTED, ProxySettings
from envoy_config.plan.policies._inbound_policies import InboundPolicies, inbound_policies
from envoy_config.plan.redirected._egress import egress_in, unknown_target
from envoy_config.plan.redirected._inbound import RedirectedInbound, plan_redirected_inbound
from envoy_config.plan.redirected._listeners import (
    LOOPBACKS,
    HttpChain,
    IpVersions,
    RedirectedListener,
)
from envoy_config.plan.redirected._outbound import RedirectedOutbound, plan_redirected_outbound
from envoy_config.plan.telemetry._telemetry import settings_of
from mesh_model import MeshModel, ScopeKey
from xds_server import Generated, Resource


class _Planned(NamedTuple):
    """A plan, and what tells whether equal services still want the same connections."""

    plan: RedirectedOutbound
    connections: object


class _OutboundListener(NamedTuple):
    """All that an outbound listener's resource depends on, but for the mesh's own settings.

    Plans keep a listener that stays as it is as the same object, so that most are found without
    being compared; and none is hashed, only where it listens.
    """

    listener: RedirectedListener
    settings: ProxySettings

    def __hash__(self) -> int:
        return hash((self.listener.bind, self.listener.port))


def _has_requests(listener: RedirectedListener) -> bool:
    return any(isinstance(each, HttpChain) for each in listener.chains)


def _of_connections(plan: RedirectedOutbound, settings: ProxySettings) -> ProxySettings:
    """Return the settings of the listeners of single services and endpoints, which may be many."""
    count = len(plan.listeners) + sum(map(len, plan.of_endpoints.values()))
    return settings if count <= MOST_COUNTED else settings.without_metrics_of_calls()


class RedirectedListeners:
    """Plans and makes the listeners of one model's redirected sidecars, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._model = model
        self._scopes = scopes
        self._inbound_plans = Cache[Proxy, RedirectedInbound]()
        self._outbound_plans = Cache[RedirectedOutboundShape, _Planned](most=MOST_SCOPES)
        self._of_shape = Cache[RedirectedListenerShape, Generated]()
        self._of_plan = Cache[_OfPlan, tuple[Resource, ...]](most=MOST_SCOPES)
        self._like: dict[tuple[IpVersions, Naming], RedirectedOutbound] = {}
        """A plan for proxies that have these versions of IP and settings of DNS."""
        self._connections = object()
        """The same in two contexts if the rules for connections are."""
        self._outbound = Cache[_OutboundListener, Resource](most=MOST_RESOURCES)
        self._inbound = Cache[_Inbound, tuple[Resource, ...]](most=MOST_OWN)

    def for_proxy(self, proxy: Proxy) -> Generated:
        """Return all listeners of a redirected sidecar."""
        outbound = RedirectedOutboundShape(
            self._scopes.key_of(proxy), self.inbound(proxy).ips, proxy.naming
        )
        elsewhere = self._plan(outbound).of_endpoints
        # Calls of the workload to itself don't come back to it by way of its own listener.
        own = frozenset(each for each in proxy.addresses[:1] if each in elsewhere)
        return self._of_shape.get(
            RedirectedListenerShape(
                outbound,
                self.inbound(proxy),
                own,
                settings_of(proxy, self._model, lambda: self._scopes.for_proxy(proxy).services),
                inbound_policies(proxy, self._model),
            ),
            self._make,
        )

    def inbound(self, proxy: Proxy) -> RedirectedInbound:
        """Return what a proxy accepts for its workload."""
        return self._inbound_plans.get(proxy, self._plan_inbound)

    @property
    def conflicts(self) -> frozenset[Conflict]:
        """The services that found no place to be listened for, for the proxies served so far."""
        plans = self._outbound_plans.values()
        return frozenset(each for found in plans for each in found.plan.conflicts)

    def adopt(
        self, before: "RedirectedListeners", change: ModelChange, held: AbstractSet[ScopeKey]
    ) -> None:
        """Take over the listeners that the change leaves as they are.

        held: the scopes of which proxies may still ask.
        """
        old, new = change.old, change.new
        if old.mesh_config != new.mesh_config or old.owners != new.owners:
            return
        if old.trust_domains == new.trust_domains:
            self._inbound.adopt(before._inbound)
        if change.only_endpoints or change.same_connections:
            self._connections = before._connections
        self._outbound_plans.remember(
            before._outbound_plans, where=lambda shape: shape.scope in held
        )
        self._outbound.remember(before._outbound)
        if change.only_endpoints:
            self._outbound_plans.adopt(before._outbound_plans)
            self._of_plan.adopt(before._of_plan)
            self._outbound.adopt(before._outbound)

    def _plan(self, shape: RedirectedOutboundShape) -> RedirectedOutbound:
        return self._outbound_plans.renew(shape, self._plan_outbound).plan

    def _plan_inbound(self, proxy: Proxy) -> RedirectedInbound:
        return plan_redirected_inbound(proxy, self._model, self._scopes.for_proxy(proxy).sidecar)

    def _plan_outbound(self, shape: RedirectedOutboundShape, before: _Planned | None) -> _Planned:
        scope = self._scopes.get(shape.scope)
        mesh = self._model.mesh_config
        loopback = LOOPBACKS[shape.ips.versions[0]]
        http_proxy = (loopback, mesh.proxy_http_port) if mesh.proxy_http_port else None
        like = shape.ips, shape.naming
        plan = plan_redirected_outbound(
            egress_in(scope, self._model, shape.ips),
            ips=shape.ips,
            rest=unknown_target(scope),
            http_proxy=http_proxy,
            http_proxy_route=names.HTTP_PROXY_ROUTE,
            naming=shape.naming,
            own_ports=(mesh.proxy_listen_port, mesh.proxy_inbound_listen_port),
            # Most services are to other scopes what they are to this one: they share listeners.
            before=before.plan if before is not None else self._like.get(like),
            same_connections=before is not None and before.connections is self._connections,
        )
        self._like.setdefault(like, plan)
        return _Planned(plan, self._connections)

    def _make(self, shape: RedirectedListenerShape) -> Generated:
        inbound = shape.inbound
        scope = self._scopes.get(shape.outbound.scope)
        passed = self._passed(shape.outbound) if scope.outbound_policy.looks_up else None
        receiving = virtual_outbound(
            inbound.ips,
            unknown_target(scope),
            self._model,
            shape.settings,
            keeps_source=inbound.keeps_source,
            passed=passed,
        )
        return Generated(
            resources=(
                named(receiving),
                *self._inbound.get(
                    _Inbound(inbound, shape.settings, shape.policies), self._make_inbound
                ),
                *self._of_plan.get(_OfPlan(shape.outbound, shape.settings), self._make_of_plan),
                *self._make_of_endpoints(shape),
            )
        )

    def _passed(self, shape: RedirectedOutboundShape) -> frozenset[int]:
        """Return the ports with a listener that takes connections without looking at them."""
        plan = self._plan(shape)
        of_endpoints = (each for found in plan.of_endpoints.values() for each in found)
        return frozenset(
            each.port
            for each in (*plan.listeners, *of_endpoints)
            if not each.is_bound and not _has_requests(each)
        )

    def _make_of_plan(self, key: "_OfPlan") -> tuple[Resource, ...]:
        plan = self._plan(key.shape)
        of_connections = _of_connections(plan, key.settings)
        return tuple(
            self._outbound_listener(each, key.settings if _has_requests(each) else of_connections)
            for each in plan.listeners
        )

    def _make_of_endpoints(self, shape: RedirectedListenerShape) -> Iterator[Resource]:
        plan = self._plan(shape.outbound)
        settings = _of_connections(plan, shape.settings)
        for address, listeners in plan.of_endpoints.items():
            if address not in shape.own:
                for each in listeners:
                    yield self._outbound_listener(each, settings)

    def _outbound_listener(self, listener: RedirectedListener, settings: ProxySettings) -> Resource:
        return self._outbound.renew(_OutboundListener(listener, settings), self._make_outbound)

    def _make_outbound(self, key: _OutboundListener, before: Resource | None) -> Resource:
        return before or named(redirected_outbound(key.listener, self._model, key.settings))

    def _make_inbound(self, key: "_Inbound") -> tuple[Resource, ...]:
        inbound, settings, policies = key
        listeners = (
            virtual_inbound(inbound, self._model, settings, policies),
            *(
                bound_inbound(each, self._model, settings, policies)
                for each in inbound.ports
                if each.bind
            ),
        )
        return tuple(map(named, listeners))


class _Inbound(NamedTuple):
    inbound: RedirectedInbound
    settings: ProxySettings
    policies: InboundPolicies


class _OfPlan(NamedTuple):
    shape: RedirectedOutboundShape
    settings: ProxySettings
