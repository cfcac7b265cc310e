"""Names of Kubernetes services, of their aliases, and of pods behind headless services."""

from collections.abc import Callable, Mapping

from documents import CLUSTER_DUMP
from envoy_config.context._context import PushContext
from mesh_model import MeshModel
from mesh_protos.nds_pb2 import NameTable
from proxies import proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]
DUMP = CLUSTER_DUMP.read_text()


def names(model: MeshModel) -> Mapping[str, NameTable.NameInfo]:
    of = Node(
        id="sidecar~10.1.1.10~web.shop~shop.svc.cluster.local", metadata={"DNS_CAPTURE": "true"}
    )
    (resource,) = PushContext(model).names(proxy_of(of)).resources
    return NameTable.FromString(resource.body).table


def test_kubernetes_services_their_aliases_and_pods_have_names(model_of: Build) -> None:
    found = names(model_of(DUMP))
    web, alias = found["web.shop.svc.cluster.local"], found["shopfront.shop.svc.cluster.local"]

    assert list(web.ips) == list(alias.ips) == ["10.96.7.1", "fd00:10:96::7"]
    assert (alias.registry, alias.shortname, alias.namespace) == ("Kubernetes", "shopfront", "shop")
    assert list(found["db.shop.svc.cluster.local"].ips) == ["10.1.1.20", "10.1.2.20"]
    pod = found["db-0.db.shop.svc.cluster.local"]
    assert list(pod.ips) == ["10.1.1.20"]
    assert (pod.registry, pod.shortname, pod.namespace) == ("Kubernetes", "db-0.db", "shop")
    assert list(found["db-1.db.shop.svc.cluster.local"].ips) == ["10.1.2.20"]


def test_a_pod_that_is_not_ready_has_no_name(model_of: Build) -> None:
    unready = DUMP.replace(
        "  - addresses: [10.1.1.20]\n    conditions: {ready: true}",
        "  - addresses: [10.1.1.20]\n    conditions: {ready: false}",
    ).replace("    publishNotReadyAddresses: true\n", "")
    found = names(model_of(unready))

    assert list(found["db.shop.svc.cluster.local"].ips) == ["10.1.2.20"]
    assert "db-0.db.shop.svc.cluster.local" not in found
