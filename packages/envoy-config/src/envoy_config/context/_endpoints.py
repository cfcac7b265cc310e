"""The load assignments of clusters, each shared by all proxies to which it is the same."""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from envoy_config.changes._model_change import ModelChange
from envoy_config.changes._rule_changes import RuleChanges
from envoy_config.context._cache import MOST_NAMES, Cache, ServiceCache
from envoy_config.context._clients import Clients, client_of
from envoy_config.context._cluster_names import ClusterNames
from envoy_config.context._scopes import Scopes
from envoy_config.context._shapes import EndpointShape
from envoy_config.generate.endpoints._assignment import (
    empty_assignment,
    load_assignment,
    sni_assignment,
)
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._client import Client, Location
from envoy_config.plan._discovery import has_addresses
from mesh_model import DestinationRules, MeshModel, Port, Scope, ScopeKey, Service
from mesh_protos import type_urls
from xds_server import ByIdentity, Generated, Resource

_EMPTY = "empty"
"""The version of load assignments that have nothing but their name."""
_FEW = 50
_MANY_UNKNOWN = 1000
"""An answer with more unknown clusters is not kept: it is of one client, which chose them."""
_MOST_OF_SCOPE = 4
"""Proxies of one scope may ask for different clusters: for so many sets of them, answers are kept
for the next model."""


class _Assigned(NamedTuple):
    """Load assignments in order of their names, each with its host and service.

    hosts: empty for those of unknown services, of which clients choose the names.
    """

    generated: Generated
    hosts: tuple[str, ...]
    services: tuple[Service | None, ...]
    rules: DestinationRules


class _Known(NamedTuple):
    """A part of a set of clusters: those that there are; None: all."""

    some: frozenset[str] | None


def _names_of(shape: EndpointShape) -> int:
    return len(shape.clusters) + 1


def _host(cluster: str) -> str:
    parsed = names.parse_outbound_cluster(cluster) or names.parse_sni_cluster(cluster)
    return parsed.host if parsed is not None else ""


def _is_known(cluster: str, scope: Scope) -> bool:
    parsed = names.parse_outbound_cluster(cluster) or names.parse_sni_cluster(cluster)
    service = scope.services.get(parsed.host) if parsed is not None else None
    if parsed is None or service is None or service.port(parsed.port) is None:
        return False
    if not parsed.subset:
        return True
    rule = scope.rule(service)
    return rule is not None and parsed.subset in rule.subsets


def _newest(shapes: Sequence[EndpointShape], held: AbstractSet[ScopeKey]) -> set[EndpointShape]:
    """Return the last few of each scope and location, of shapes from the oldest to the newest."""
    counts: Counter[tuple[ScopeKey, Location]] = Counter()
    found: set[EndpointShape] = set()
    for shape in reversed(shapes):
        of = shape.scope, shape.location
        if shape.scope in held and counts[of] < _MOST_OF_SCOPE:
            counts[of] += 1
            found.add(shape)
    return found


class Endpoints:
    """Makes the load assignments of one model's proxies, and keeps them."""

    def __init__(
        self,
        model: MeshModel,
        scopes: Scopes,
        clients: Clients,
        names_before: ClusterNames | None,
    ) -> None:
        self._model = model
        self._scopes = scopes
        self._clients = clients
        self._of_shape = Cache[EndpointShape, _Assigned](most=MOST_NAMES, weigh=_names_of)
        self._known: dict[ScopeKey, ByIdentity[frozenset[str], _Known]] = {}
        """Of the sets of clusters that clients watch, for as long as they do."""
        self._rule_changes = RuleChanges(model.destination_rules)
        self._assignments = ServiceCache[Resource]()
        self.cluster_names = names_before if names_before is not None else ClusterNames()
        self._clusters_of = Cache[tuple[frozenset[str], frozenset[str]], frozenset[str]](
            most=MOST_NAMES, weigh=lambda key: len(key[1]) + 1
        )

    def for_shape(self, shape: EndpointShape) -> Generated:
        """Return the load assignments of a shape's clusters; an unknown one's is empty."""
        if shape not in self._of_shape and self._has_many_unknown(shape):
            # No other client asks for them.
            return self._make(shape, self._of_shape.pop_earlier(shape)).generated
        return self._of_shape.renew(shape, self._make).generated

    def known(self, shape: EndpointShape) -> frozenset[str]:
        """Return those of a shape's clusters that are there."""
        of_scope = self._known.setdefault(shape.scope, ByIdentity())
        found = of_scope.get(shape.clusters)
        if found is None:
            known = self._find_known(shape)
            # Not the set itself, which it would keep for ever.
            found = _Known(None if known is shape.clusters else known)
            of_scope.keep(shape.clusters, found)
        return shape.clusters if found.some is None else found.some

    def clusters_of(self, hosts: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
        """Return those of the wanted clusters that lead to one of the hosts."""
        return self._clusters_of.get((hosts, wanted), lambda key: self.cluster_names.select(*key))

    def adopt(self, before: "Endpoints", change: ModelChange, held: AbstractSet[ScopeKey]) -> None:
        """Take over the load assignments that the change leaves as they are.

        held: the scopes of which proxies may still ask.
        """
        if not change.same_settings:
            return
        self._assignments.adopt(before._assignments, change, but=change.services.pairs)
        # After a change of endpoints few clusters are asked for, and then never again so.
        asked = [each for each, _ in before._of_shape.known() if len(each.clusters) > _FEW]
        # Once clusters came or went, those that were asked for before are not asked for again.
        lasting = _newest(asked, held)
        self._of_shape.remember(before._of_shape, where=lasting.__contains__)

    def _has_many_unknown(self, shape: EndpointShape) -> bool:
        many = len(shape.clusters) > _MANY_UNKNOWN
        return many and len(shape.clusters) - len(self.known(shape)) > _MANY_UNKNOWN

    def _find_known(self, shape: EndpointShape) -> frozenset[str]:
        scope = self._scopes.get(shape.scope)
        services = scope.services
        gone = [
            each
            for each in shape.clusters
            # The first is quick, and is true of most names that a client makes up.
            if (each.rpartition("|")[2] not in services and "_." not in each)
            or not _is_known(each, scope)
        ]
        return shape.clusters.difference(gone) if gone else shape.clusters

    def _make(self, shape: EndpointShape, before: _Assigned | None) -> _Assigned:
        scope = self._scopes.get(shape.scope)
        client = client_of(shape.scope, shape.location)
        if before is None:
            found = tuple(self._find(scope, client, each) for each in sorted(shape.clusters))
        else:
            touches = self._rule_changes.since(before.rules).touches
            found = tuple(
                known
                if host and service is scope.services.get(host) and not touches(host)
                else self._find(scope, client, known.name)
                for known, host, service in zip(
                    before.generated.resources, before.hosts, before.services, strict=True
                )
            )
        hosts, services = self._services_of(found, before, scope)
        return _Assigned(Generated(resources=found), hosts, services, scope.rules)

    def _services_of(
        self, found: tuple[Resource, ...], before: _Assigned | None, scope: Scope
    ) -> tuple[tuple[str, ...], tuple[Service | None, ...]]:
        """Return the hosts and services of load assignments; no host where there is no service."""
        known = before.hosts if before is not None else ("",) * len(found)
        hosts, services = [], []
        for resource, host in zip(found, known, strict=True):
            name = host or _host(resource.name)
            service = scope.services.get(name)
            hosts.append(name if service is not None else "")
            services.append(service)
        return tuple(hosts), tuple(services)

    def _find(self, scope: Scope, client: Client, cluster: str) -> Resource:
        parsed = names.parse_outbound_cluster(cluster)
        by_sni = parsed is None
        if parsed is None:
            parsed = names.parse_sni_cluster(cluster)
        if parsed is not None:
            service = scope.services.get(parsed.host)
            port = service.port(parsed.port) if service is not None else None
            if service is not None and port is not None and has_addresses(service):
                return self._of(service, port, parsed.subset, scope, client, by_sni=by_sni)
        # Clients choose such names: one version for all takes less memory than a hash of each.
        body = empty_assignment(cluster).SerializeToString()
        return Resource(name=cluster, type_url=type_urls.ENDPOINT, body=body, version=_EMPTY)

    def _of(
        self,
        service: Service,
        port: Port,
        subset: str,
        scope: Scope,
        client: Client,
        *,
        by_sni: bool,
    ) -> Resource:
        rule = scope.rule(service)
        service = self._model.by_key[service.namespace, service.host]
        client = self._clients.reduced(client, service, rule)

        def make() -> Resource:
            assignment = sni_assignment if by_sni else load_assignment
            message = assignment(
                service, port, self._model, subset=subset, rule=rule, client=client
            )
            return Resource.pack(message, name=message.cluster_name)

        return self._assignments.get(service, rule, (port, subset, client, by_sni), make)
