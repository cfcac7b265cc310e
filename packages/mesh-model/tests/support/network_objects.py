"""Meshes of several networks, built without YAML."""

from collections.abc import Mapping
from typing import Any

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE
from istio_config.kinds.mesh_networks import MESH_NETWORKS
from mesh_model import Facts, MeshModel, build_model
from mesh_objects import object_of, snapshot

N2 = {"topology.istio.io/network": "n2"}


def model(
    *objects: ConfigObject,
    addresses: Mapping[str, tuple[str, ...]] | None = None,
    strict_namespaces: bool = False,
) -> MeshModel:
    facts = Facts(snapshot=snapshot(objects), addresses=addresses)
    return build_model(facts, strict_namespaces=strict_namespaces)


def networks(**given: Any) -> ConfigObject:
    return object_of(MESH_NETWORKS, "default", {"networks": given})


def gateway_service(*addresses: str, **labels: str) -> ConfigObject:
    return object_of(
        KUBERNETES_SERVICE,
        "eastwest",
        {"clusterIP": "10.96.0.9", "ports": [{"port": 15443, "name": "tls"}]},
        namespace="istio-system",
        labels={**N2, **labels},
        status={"loadBalancer": {"ingress": [{"ip": each} for each in addresses]}},
    )
