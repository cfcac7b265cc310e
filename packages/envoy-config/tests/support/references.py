"""The resources that a proxy asks for by the names in others."""

from collections.abc import Iterable

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)

from xds_server import Resource, type_urls


class References:
    """The names in clusters and listeners by which endpoints and routes are asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def named_by(self, resources: Iterable[Resource]) -> frozenset[str]:
        found: set[str] = set()
        for each in resources:
            key = each.type_url, each.name, each.version
            if key not in self._known:
                self._known[key] = tuple(_named_in(each))
            found.update(self._known[key])
        return frozenset(found)


def _named_in(resource: Resource) -> Iterable[str]:
    if resource.type_url == type_urls.CLUSTER:
        cluster = Cluster.FromString(resource.body)
        if cluster.type == Cluster.EDS:
            yield cluster.eds_cluster_config.service_name or cluster.name
        return
    listener = Listener.FromString(resource.body)
    for chain in (*listener.filter_chains, listener.default_filter_chain):
        for each in chain.filters:
            manager = http_connection_manager_pb2.HttpConnectionManager()
            if each.typed_config.Unpack(manager) and manager.HasField("rds"):
                yield manager.rds.route_config_name
