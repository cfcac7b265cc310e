"""Clusters of gateways that pass TLS of the mesh on."""

from collections.abc import Callable

from envoy.config.cluster.v3.cluster_pb2 import Cluster

from documents import entry
from envoy_config.generate.clusters._outbound import sni_clusters
from mesh_model import MeshModel

FIELDS = (
    "hosts: [s.b.svc.cluster.local], location: MESH_INTERNAL, resolution: DNS, "
    "ports: [{number: 80, name: http, protocol: HTTP}]"
)


def test_service_that_is_looked_up_has_one_even_if_no_endpoint_takes_mutual_tls(
    model_of: Callable[..., MeshModel],
) -> None:
    model = model_of(entry("s", FIELDS, namespace="b"))
    (cluster,) = sni_clusters(model.services[0], None, model)
    assert cluster.name == "outbound_.80_._.s.b.svc.cluster.local"
    assert cluster.type == Cluster.STATIC
    assert not cluster.load_assignment.endpoints
    assert not cluster.HasField("typed_dns_resolver_config")
