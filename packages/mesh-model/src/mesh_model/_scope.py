"""Scopes: the part of the mesh that a proxy knows, shared by all proxies that know the same.

A scope is what Istio calls a SidecarScope. It follows from a proxy's namespace, from whether it is
a gateway, from the Sidecar object that selects it, and from those of its labels that rules anywhere
read. All clusters, endpoints and routes of a proxy are built from its scope.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from istio_config.edits import with_replaced
from istio_config.kinds.mesh_config import TrafficPolicyMode
from istio_config.kinds.sidecar import SidecarSpec, SidecarTrafficMode
from istio_config.kinds.virtual_service import Destination
from mesh_model._aliases import ServicesByName
from mesh_model._destination_rules import NO_RULES, DestinationRules, Rule
from mesh_model._model import MeshModel
from mesh_model._services import Labels, Service
from mesh_model._visibility import visible_services
from mesh_model.sidecars._imports import (
    EgressListener,
    Imports,
    egress_listeners,
    known_services,
    with_ports,
)

_FEW = 100


class ScopeKey(NamedTuple):
    """The attributes of a proxy that decide which part of the mesh it knows."""

    namespace: str
    is_sidecar: bool = True
    sidecar: tuple[str, str] | None = None
    """Namespace and name of the Sidecar object that selects the proxy."""
    labels: Labels = ()
    """Those of the proxy's labels that rules of the mesh look at."""
    redirected: bool = False
    """Whether traffic is redirected to the proxy (iptables), and not sent to it by its address."""


class OutboundPolicy(NamedTuple):
    """The outboundTrafficPolicy: calls to hosts and addresses that the mesh does not know."""

    allows_any: bool = True
    egress_proxy: Destination | None = None
    """The service to which they are sent; None: to their original destination."""
    looks_up: bool = False
    """Whether requests go to the addresses of their Host header (ALLOW_ANY_DYNAMIC_DNS)."""


ANY_OUTBOUND = OutboundPolicy()


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The part of the mesh that the proxies of one key know."""

    key: ScopeKey
    services: Mapping[str, Service]
    """By host: all to which there are clusters."""
    egress: tuple[EgressListener, ...]
    rules: DestinationRules = NO_RULES
    outbound_policy: OutboundPolicy = ANY_OUTBOUND
    sidecar: SidecarSpec | None = None
    """The Sidecar object that selects the proxies."""

    def egress_for(self, port: int) -> EgressListener | None:
        """Return the listener that has the routes of a port: the first for it, or for any."""
        for each in self.egress:
            if each.port is None or (each.port.number == port and not each.is_http_proxy):
                return each
        return None

    @cached_property
    def by_name(self) -> ServicesByName:
        """The services, by the hosts that routes name."""
        return ServicesByName(self.services)

    def rule(self, service: Service) -> Rule | None:
        """Return the rule by which the proxies reach a service."""
        return self.rules.rule_for(self.key.namespace, service, self.key.labels)

    @property
    def redirected(self) -> bool:
        """Whether traffic is redirected to the proxies."""
        return self.key.redirected

    def with_services(self, changed: Mapping[tuple[str, str], Service]) -> "Scope":
        """Return the scope with services replaced, by namespace and host.

        None comes or goes, and with a Sidecar none has other ports.
        """
        here = {
            host: now
            for (owner, host), now in changed.items()
            if (known := self.services.get(host)) is not None and known.namespace == owner
        }
        in_listeners = self.sidecar is not None and any(
            (service.namespace, service.host) in changed
            for each in self.egress
            for service in each.services
        )
        if not here and not in_listeners:
            return self
        if self.sidecar is None and len(here) <= _FEW:
            pairs = [(self.services[host], now) for host, now in here.items()]
            egress = (
                replace(each, services=with_replaced(each.services, pairs)) for each in self.egress
            )
            return replace(self, services={**self.services, **here}, egress=tuple(egress))

        def replaced(service: Service) -> Service:
            now = changed.get((service.namespace, service.host))
            if now is None or self.sidecar is None:
                return service if now is None else now
            return with_ports(now, frozenset(port.number for port in service.ports))

        return replace(
            self,
            services={**self.services, **{host: replaced(self.services[host]) for host in here}},
            egress=tuple(each.replacing(replaced) for each in self.egress),
        )


def scope_key(
    model: MeshModel,
    *,
    namespace: str,
    labels: Labels,
    is_sidecar: bool = True,
    redirected: bool = False,
) -> ScopeKey:
    """Return the key of a proxy's scope."""
    seen = model.labels_looked_at
    return ScopeKey(
        namespace=namespace,
        is_sidecar=is_sidecar,
        sidecar=model.sidecars.choose(namespace, labels) if is_sidecar else None,
        labels=tuple((key, value) for key, value in labels if key in seen) if seen else (),
        redirected=redirected,
    )


def scope_of(model: MeshModel, *, namespace: str, labels: Mapping[str, str] | None = None) -> Scope:
    """Return what the sidecar of a workload knows: the services that it can reach, by host.

    labels: the workload's, by which Sidecars and rules select it.
    """
    own = tuple(sorted((labels or {}).items()))
    key = scope_key(model, namespace=namespace, labels=own)
    return find_scope(key, model, lambda each: visible_services(model.services, each))


def find_scope(
    key: ScopeKey, model: MeshModel, visible: Callable[[str], Mapping[str, Service]]
) -> Scope:
    """Find what the proxies of a key know; visible: the services exported to a namespace."""
    sidecar = model.sidecars.spec(key.sidecar) if key.sidecar is not None else None
    if sidecar is None:
        services = visible(key.namespace)
        routes = model.virtual_services.of_mesh(key.namespace) if key.is_sidecar else ()
        egress: tuple[EgressListener, ...] = (
            EgressListener(services=tuple(services.values()), virtual_services=routes),
        )
    else:
        imports = Imports(
            namespace=key.namespace,
            by_key=model.by_key,
            services=model.indices.services,
            virtual_services=model.indices.virtual_services,
            aliased=model.indices.aliased,
            visible=visible,
            providers=tuple(
                found
                for each in model.mesh_config.extension_providers
                if (found := each.service) is not None
            ),
        )
        egress = egress_listeners(sidecar, imports)
        services = known_services(egress, sidecar, imports)
    return Scope(
        key=key,
        services=services,
        egress=egress,
        rules=model.destination_rules,
        outbound_policy=_outbound_policy(sidecar, model),
        sidecar=sidecar,
    )


def _outbound_policy(sidecar: SidecarSpec | None, model: MeshModel) -> OutboundPolicy:
    own = sidecar.outbound_traffic_policy if sidecar is not None else None
    if own is None:
        mode = model.mesh_config.outbound_traffic_policy.mode
        return OutboundPolicy(
            allows_any=mode is not TrafficPolicyMode.REGISTRY_ONLY,
            looks_up=mode is TrafficPolicyMode.ALLOW_ANY_DYNAMIC_DNS,
        )
    return OutboundPolicy(
        allows_any=own.mode is SidecarTrafficMode.ALLOW_ANY, egress_proxy=own.egress_proxy
    )
