"""The load assignments of clusters, each shared by all proxies to which it is the same."""

from typing import NamedTuple

from mesh_discovery.generate._endpoints import empty_assignment, load_assignment
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._scope import Scope
from mesh_discovery.model._services import Port
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._place import Place
from mesh_discovery.push.context._cache import Cache
from mesh_discovery.push.context._cluster_names import ClusterNames
from mesh_discovery.push.context._model_change import ModelChange
from mesh_discovery.push.context._scopes import Scopes
from mesh_discovery.push.context._shapes import EndpointShape
from xds_server import Generated, Resource


class Assignment(NamedTuple):
    """All that a load assignment depends on."""

    namespace: str
    host: str
    port: Port


class Endpoints:
    """Makes the load assignments of one model's proxies, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes, names_before: ClusterNames | None) -> None:
        self._model = model
        self._scopes = scopes
        self._of_shape = Cache[EndpointShape, Generated]()
        self._assignments = Cache[Assignment, Resource]()
        self.cluster_names = names_before if names_before is not None else ClusterNames()
        self._clusters_of = Cache[tuple[frozenset[str], frozenset[str]], frozenset[str]]()

    def of(self, shape: EndpointShape) -> Generated:
        """Return the load assignments of a shape's clusters; an unknown one's is empty."""
        return self._of_shape.get(shape, self._make)

    def clusters_of(self, hosts: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
        """Return those of the wanted clusters that lead to one of the hosts."""
        return self._clusters_of.get((hosts, wanted), lambda key: self.cluster_names.of(*key))

    def adopt(self, before: "Endpoints", change: ModelChange) -> None:
        """Take over the load assignments that the change leaves as they are."""
        if not change.same_rules:
            return
        self._assignments.adopt_but(
            before._assignments,
            (
                Assignment(namespace, host, port)
                for (namespace, host), (service, _) in change.services.pairs.items()
                for port in (service.ports if service is not None else ())
            ),
        )

    def _make(self, shape: EndpointShape) -> Generated:
        scope = self._scopes.get(shape.scope)
        return Generated(
            resources=tuple(self._find(scope, shape.place, each) for each in sorted(shape.clusters))
        )

    def _find(self, scope: Scope, place: Place, cluster: str) -> Resource:
        del place
        parsed = names.parse_outbound_cluster(cluster)
        if parsed is not None and not parsed.subset:
            service = scope.services.get(parsed.host)
            port = service.port(parsed.port) if service is not None else None
            if service is not None and service.uses_eds and port is not None:
                key = Assignment(service.namespace, service.host, port)
                return self._assignments.get(key, self._make_assignment)
        return Resource.pack(empty_assignment(cluster), name=cluster)

    def _make_assignment(self, key: Assignment) -> Resource:
        service = self._model.by_key[key.namespace, key.host]
        made = load_assignment(service, key.port, self._model)
        return Resource.pack(made, name=made.cluster_name)
