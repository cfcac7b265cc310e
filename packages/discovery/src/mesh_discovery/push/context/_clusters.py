"""The clusters of proxies: those of services, shared by all, and those of their own ports."""

from functools import cached_property
from typing import NamedTuple

from mesh_discovery.generate._captured_clusters import (
    captured_inbound_cluster,
    captured_passthrough,
    inbound_passthrough,
)
from mesh_discovery.generate._clusters import (
    black_hole,
    inbound_cluster,
    outbound_clusters,
    passthrough,
)
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._scope import ScopeKey
from mesh_discovery.model._services import Service
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._inbound import Application
from mesh_discovery.plan._place import Place
from mesh_discovery.plan.capture._inbound import CapturedInbound
from mesh_discovery.push.context._cache import Cache
from mesh_discovery.push.context._model_change import ModelChange
from mesh_discovery.push.context._named import named
from mesh_discovery.push.context._scopes import MOST_SCOPES, Scopes
from mesh_discovery.push.context._shapes import ClusterShape
from xds_server import Generated, Resource


class ServiceClusters(NamedTuple):
    """All that the clusters of a service depend on in a scope."""

    namespace: str
    host: str


class _OfScope(NamedTuple):
    scope: ScopeKey
    place: Place


class Clusters:
    """Makes the clusters of one model's proxies, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._model = model
        self._scopes = scopes
        self._of_shape = Cache[ClusterShape, Generated]()
        self._outbound = Cache[_OfScope, tuple[Resource, ...]](most=MOST_SCOPES)
        self._of_service = Cache[ServiceClusters, tuple[Resource, ...]]()
        self._inbound = Cache[Application, Resource]()
        self._captured = Cache[CapturedInbound, tuple[Resource, ...]]()

    def of(self, shape: ClusterShape) -> Generated:
        """Return all clusters of the proxies of a shape."""
        return self._of_shape.get(shape, self._make)

    def adopt(self, before: "Clusters", change: ModelChange) -> None:
        """Take over the clusters that the change leaves as they are."""
        if not change.same_rules:
            return
        touched = change.services.pairs.keys() - change.endpoints_only
        self._of_service.adopt_but(before._of_service, (ServiceClusters(*key) for key in touched))
        if change.only_endpoints:
            # These serve many proxies each. Those of one proxy would stay after it has gone.
            self._outbound.adopt_but(before._outbound, ())

    def _make(self, shape: ClusterShape) -> Generated:
        outbound = self._outbound.get(_OfScope(shape.scope, shape.place), self._make_outbound)
        if shape.captured is not None:
            return Generated(
                resources=(*outbound, *self._captured.get(shape.captured, self._make_captured))
            )
        # One inbound cluster a port, though several addresses may lead to it.
        by_name = {
            names.inbound_cluster(port.number): port.application for port in reversed(shape.inbound)
        }
        inbound = [
            self._inbound.get(each, self._make_inbound) for _, each in sorted(by_name.items())
        ]
        return Generated(resources=(*outbound, *self._fixed, *inbound))

    @cached_property
    def _fixed(self) -> tuple[Resource, ...]:
        return tuple(named(each) for each in (black_hole(self._model), passthrough(self._model)))

    def _make_captured(self, inbound: CapturedInbound) -> tuple[Resource, ...]:
        ips, model = inbound.ips, self._model
        made = (
            black_hole(model),
            captured_passthrough(model),
            inbound_passthrough(ips, model),
            *(captured_inbound_cluster(port, ips, model) for port in inbound.ports),
        )
        return tuple(map(named, made))

    def _make_inbound(self, application: Application) -> Resource:
        return named(inbound_cluster(application, self._model))

    def _make_outbound(self, key: _OfScope) -> tuple[Resource, ...]:
        return tuple(
            resource
            for service in self._scopes.get(key.scope).services.values()
            for resource in self._with_ports_of(
                service,
                self._of_service.get(
                    ServiceClusters(service.namespace, service.host), self._make_of_service
                ),
            )
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

    def _make_of_service(self, key: ServiceClusters) -> tuple[Resource, ...]:
        service = self._model.by_key[key.namespace, key.host]
        return tuple(map(named, outbound_clusters(service, self._model)))
