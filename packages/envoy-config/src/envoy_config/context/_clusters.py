"""The clusters of proxies: those of services, shared by all, and those of their own ports."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from envoy_config.changes._model_change import ModelChange
from envoy_config.changes._rule_changes import RuleChanges
from envoy_config.context._cache import Cache, ServiceCache
from envoy_config.context._clients import Clients, client_of
from envoy_config.context._named import named
from envoy_config.context._scopes import MOST_OWN, MOST_SCOPES, Scopes
from envoy_config.context._shapes import ClusterShape
from envoy_config.generate.clusters._fixed import (
    black_hole,
    dynamic_dns,
    inbound_passthrough,
    passthrough,
    redirected_passthrough,
)
from envoy_config.generate.clusters._inbound import inbound_cluster, redirected_inbound_cluster
from envoy_config.generate.clusters._outbound import outbound_clusters, sni_clusters
from envoy_config.generate.clusters._stat_names import stat_name
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._client import NOWHERE, Client, ClientFiles, Location
from envoy_config.plan._inbound import Application
from envoy_config.plan._traffic_policy import Policy, effective_policy
from envoy_config.plan.redirected._inbound import RedirectedInbound
from istio_config.kinds.mesh_config import TrafficPolicyMode
from mesh_model import NO_RULES, DestinationRules, MeshModel, Rule, Scope, ScopeKey, Service
from xds_server import EditBase, Generated, Resource


class _OfScope(NamedTuple):
    scope: ScopeKey
    location: Location
    files: ClientFiles | None


class _Edit(NamedTuple):
    """The difference of a scope's clusters from earlier ones."""

    since: object
    """The identity of the earlier ones."""
    changed: tuple[Resource, ...]
    removed: frozenset[str]


class _OutboundOf(NamedTuple):
    """The clusters of a scope's services, by host."""

    services: Mapping[str, Service]
    rules: DestinationRules
    clusters: Mapping[str, tuple[Resource, ...]]
    identity: object = None
    """Tells them from all others."""
    edit: _Edit | None = None
    """How they came of earlier ones, if most of them stayed."""

    def edit_since(self, identity: object) -> _Edit | None:
        """Return the difference from the ones of an identity; None if it is not known."""
        if self.identity is identity:
            return _Edit(identity, (), frozenset())
        return self.edit if self.edit is not None and self.edit.since is identity else None


class _Sent(NamedTuple):
    """The clusters of a shape that clients have, to tell from them what is new."""

    identity: object
    own: tuple[Resource, ...]
    base: EditBase


class _Inbound(NamedTuple):
    application: Application
    host: str
    port: int


class _Content(NamedTuple):
    """All clusters of a shape, by what they are."""

    outbound: object
    """The identity of the clusters of services."""
    own: tuple[tuple[str, str], ...]
    """The names and versions of all others."""


class _ShapeClusters(NamedTuple):
    """The clusters of a shape, and what its clients are sent of them."""

    generated: Generated
    sent: _Sent


def _concerns(change: ModelChange, changed: AbstractSet[str], hosts: Iterable[str]) -> bool:
    """Return whether one of some hosts is among those that changed, or may have another rule."""
    return any(each in changed or change.rule_change.touches(each) for each in hosts)


def _edited(sent: _Sent | None, found: _OutboundOf, own: tuple[Resource, ...]) -> Generated | None:
    """Return clusters as an edit of those that clients have; None if that is not what they are."""
    edit = found.edit_since(sent.identity) if sent is not None else None
    if sent is None or edit is None:
        return None
    changed = (*edit.changed, *own)
    removed = edit.removed.union(each.name for each in sent.own)
    return sent.base.apply(changed, removed.difference(each.name for each in changed))


_NOTHING = _OutboundOf({}, NO_RULES, {})


class Clusters:
    """Makes the clusters of one model's proxies, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes, clients: Clients) -> None:
        self._model = model
        self._scopes = scopes
        self._clients = clients
        self._of_shape = Cache[ClusterShape, _ShapeClusters]()
        self._of_content = Cache[_Content, _ShapeClusters]()
        """The same by content: one answer for all shapes that come to the same."""
        self._sent = Cache[ClusterShape, _Sent]()
        self._outbound = Cache[_OfScope, _OutboundOf](most=MOST_SCOPES)
        self._rule_changes = RuleChanges(model.destination_rules)
        self._of_service = ServiceCache[tuple[Resource, ...]]()
        self._by_sni = Cache[ScopeKey, tuple[Resource, ...]](most=MOST_SCOPES)
        self._by_sni_of_service = ServiceCache[tuple[Resource, ...]]()
        self._inbound = Cache[tuple[ScopeKey, _Inbound], Resource](most=MOST_OWN)
        self._redirected = Cache[tuple[ScopeKey, RedirectedInbound], tuple[Resource, ...]](
            most=MOST_OWN
        )

    def for_shape(self, shape: ClusterShape) -> Generated:
        """Return all clusters of the proxies of a shape."""
        return self._of_shape.get(shape, self._make).generated

    def scopes_held(self) -> frozenset[ScopeKey]:
        """Return the scopes of the proxies that were served, and of clients that have clusters."""
        return frozenset(shape.scope for shape, sent in self._sent.known() if sent.base.is_held)

    def adopt(self, before: "Clusters", change: ModelChange) -> None:
        """Take over the clusters that the change leaves as they are."""
        if not change.same_settings:
            return
        touched = set(change.services.pairs.keys() - change.endpoints_only)
        self._of_service.adopt(before._of_service, change, but=touched)
        self._by_sni_of_service.adopt(before._by_sni_of_service, change, but=touched)
        held = {shape for shape, sent in before._sent.known() if sent.base.is_held}
        self._sent.remember(before._sent, where=held.__contains__)
        scopes = {_OfScope(each.scope, each.location, each.files) for each in held}
        self._outbound.remember(before._outbound, where=scopes.__contains__)
        if change.same_sidecars:
            hosts = {host for _, host in touched}
            self._inbound.adopt(
                before._inbound,
                but=(key for key in before._inbound if _concerns(change, hosts, [key[1].host])),
            )
            self._redirected.adopt(
                before._redirected,
                but=(
                    key
                    for key in before._redirected
                    if _concerns(change, hosts, (port.host for port in key[1].ports))
                ),
            )
        if change.only_endpoints:
            self._outbound.adopt(before._outbound)
            self._by_sni.adopt(before._by_sni)

    def _make(self, shape: ClusterShape) -> _ShapeClusters:
        found = self._outbound.renew(
            _OfScope(shape.scope, shape.location, shape.files), self._make_outbound
        )
        own, sent = self._own(shape), self._sent.pop_earlier(shape)

        def make(_: _Content) -> _ShapeClusters:
            generated = _edited(sent, found, own)
            if generated is None:
                outbound = chain.from_iterable(found.clusters.values())
                generated = Generated(resources=(*outbound, *own))
            return _ShapeClusters(generated, _Sent(found.identity, own, generated.edit_base()))

        # Most workloads accept on the same ports as others do.
        content = _Content(found.identity, tuple((each.name, each.version) for each in own))
        clusters = self._of_content.get(content, make)
        self._sent.put(shape, clusters.sent)
        return clusters

    def _own(self, shape: ClusterShape) -> tuple[Resource, ...]:
        """Return the clusters of a shape that are not for calls to services by their names."""
        if shape.redirected is not None:
            return self._redirected.get((shape.scope, shape.redirected), self._make_redirected)
        # One inbound cluster a port, though several addresses may lead to it.
        by_name = {
            names.inbound_cluster(port.number): _Inbound(
                port.application, port.host, port.service_port
            )
            for port in reversed(shape.inbound)
        }
        inbound = [
            self._inbound.get((shape.scope, each), self._make_inbound)
            for _, each in sorted(by_name.items())
        ]
        fixed = self._fixed if shape.scope.is_sidecar else self._fixed[:1]
        by_sni = self._by_sni.get(shape.scope, self._make_by_sni) if shape.passes_mesh_tls else ()
        return (*by_sni, *fixed, *inbound)

    @cached_property
    def _fixed(self) -> tuple[Resource, ...]:
        return tuple(named(each) for each in (black_hole(self._model), passthrough(self._model)))

    def _make_redirected(self, key: tuple[ScopeKey, RedirectedInbound]) -> tuple[Resource, ...]:
        scope, inbound = key
        ips, model = inbound.ips, self._model
        mode = model.mesh_config.outbound_traffic_policy.mode
        by_name = mode is TrafficPolicyMode.ALLOW_ANY_DYNAMIC_DNS
        looked_up = (dynamic_dns(model),) if by_name else ()
        clusters = (
            black_hole(model),
            redirected_passthrough(model),
            inbound_passthrough(ips, model),
            *looked_up,
            *(
                redirected_inbound_cluster(
                    port,
                    ips,
                    model,
                    self._inbound_policy(scope, port.host, port.service_port, port.number),
                    self._inbound_stat_name(scope, port.host, port.service_port),
                    service=self._own_service(scope, port.host),
                )
                for port in inbound.ports
            ),
        )
        return tuple(map(named, clusters))

    def _make_inbound(self, key: tuple[ScopeKey, _Inbound]) -> Resource:
        scope, (application, host, port) = key
        policy = self._inbound_policy(scope, host, port, application.number)
        stat_name = self._inbound_stat_name(scope, host, port)
        service = self._own_service(scope, host)
        return named(inbound_cluster(application, self._model, policy, stat_name, service=service))

    def _inbound_stat_name(self, scope: ScopeKey, host: str, port: int) -> str:
        """Return the name in statistics of a service's port that the workload serves."""
        pattern = self._model.mesh_config.inbound_cluster_stat_name
        service = self._own_service(scope, host) if pattern else None
        served = service.port(port) if service is not None else None
        return stat_name(pattern, host, served) if served is not None else ""

    def _own_service(self, scope: ScopeKey, host: str) -> Service | None:
        service = self._model.by_key.get((scope.namespace, host))
        return service if service is not None else self._scopes.visible(scope.namespace).get(host)

    def _inbound_policy(self, scope: ScopeKey, host: str, port: int, number: int) -> Policy:
        """Return the policy of a service that the workload itself serves.

        port: the service's; number: that on which the proxy accepts.
        """
        service = self._own_service(scope, host)
        rule = None
        if service is not None:
            # Rules for certain workloads are about the calls of those, not about calls to them.
            rule = self._model.destination_rules.rule_for(scope.namespace, service)
        policy = effective_policy(rule, port, "", self._model)
        sidecar = self._scopes.get(scope).sidecar
        own = sidecar.inbound_pool(number) if sidecar is not None else None
        return policy if own is None else replace(policy, connection_pool=own)

    def _make_outbound(self, key: _OfScope, before: _OutboundOf | None) -> _OutboundOf:
        scope = self._scopes.get(key.scope)
        client = client_of(key.scope, key.location, key.files)
        nowhere = client._replace(location=NOWHERE, labels=())
        before = before or _NOTHING

        def find(service: Service) -> tuple[Resource, ...]:
            of_client = nowhere if service.uses_eds else client
            return self._with_ports_of(service, self._find(service, scope.rule(service), of_client))

        stale = self._stale(before, scope)
        identity = object()
        if stale is None:
            clusters = {host: find(service) for host, service in scope.services.items()}
            return _OutboundOf(scope.services, scope.rules, clusters, identity)
        clusters = dict(before.clusters)
        changed: list[Resource] = []
        removed: set[str] = set()
        for host in stale:
            removed |= {each.name for each in clusters.pop(host, ())}
            if (service := scope.services.get(host)) is not None:
                clusters[host] = find(service)
                changed += clusters[host]
        left = removed.difference(each.name for each in changed)
        edit = _Edit(before.identity, tuple(changed), frozenset(left))
        return _OutboundOf(scope.services, scope.rules, clusters, identity, edit)

    def _stale(self, before: _OutboundOf, scope: Scope) -> list[str] | None:
        """Return the hosts whose clusters may be others than before; None if most may be."""
        services, known = scope.services, before.services
        change = self._rule_changes.since(before.rules)
        stale: list[str] = []
        if services is not known:
            stale += [host for host, each in services.items() if known.get(host) is not each]
            if len(stale) > len(known) // 2:
                return None
            stale += known.keys() - services.keys()
        if change.suffixes:
            stale += [host for host in services if change.touches(host)]
        else:
            stale += [host for host in change.hosts if host in services]
        return list(dict.fromkeys(stale))

    def _make_by_sni(self, key: ScopeKey) -> tuple[Resource, ...]:
        scope = self._scopes.get(key)
        return tuple(
            resource
            for service in scope.services.values()
            if not service.external
            for resource in self._find_by_sni(service, scope.rule(service))
        )

    def _find_by_sni(self, service: Service, rule: Rule | None) -> tuple[Resource, ...]:
        return self._by_sni_of_service.get(
            service,
            rule,
            (),
            lambda: tuple(map(named, sni_clusters(service, rule, self._model))),
        )

    def _with_ports_of(
        self, service: Service, clusters: tuple[Resource, ...]
    ) -> tuple[Resource, ...]:
        """Return the clusters of the ports that a scope knows of a service: all, or a Sidecar's."""
        whole = self._model.by_key[service.namespace, service.host]
        if whole is service or len(whole.ports) == len(service.ports):
            return clusters
        numbers = {port.number for port in service.ports}
        return tuple(
            each
            for each in clusters
            if (parsed := names.parse_outbound_cluster(each.name)) and parsed.port in numbers
        )

    def _find(self, known: Service, rule: Rule | None, client: Client) -> tuple[Resource, ...]:
        service = self._model.by_key[known.namespace, known.host]
        # Only clusters with the names of endpoints in them depend on where the client is.
        if not service.uses_eds:
            client = self._clients.reduced(client, service, rule)
        return self._of_service.get(
            service,
            rule,
            (client,),
            lambda: tuple(map(named, outbound_clusters(service, rule, self._model, client))),
        )
