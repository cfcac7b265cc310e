"""Networks: which endpoints are in which, and the gateways of each."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE, NAMESPACE
from mesh_model import MeshModel, NetworkGateway
from mesh_objects import object_of, pod, service_entry, workload_entry
from network_objects import N2, gateway_service, model, networks

APP = {"app": "a"}


def test_in_a_strict_mesh_a_label_makes_gateways_of_the_root_namespace_alone() -> None:
    own = gateway_service("192.0.2.1")
    foreign = replace(gateway_service("192.0.2.66"), namespace="evil")

    free, strict = (model(own, foreign, strict_namespaces=each) for each in (False, True))

    assert {each.address for each in free.networks.gateways_of("n2")} == {"192.0.2.1", "192.0.2.66"}
    assert [each.address for each in strict.networks.gateways_of("n2")] == ["192.0.2.1"]


def network_of(*objects: ConfigObject) -> list[str]:
    found = model(service_entry("web", "web.test", workloadSelector={"labels": APP}), *objects)
    (web,) = (each for each in found.services if each.host == "web.test")
    return [each.network for each in web.endpoints]


RANGES = networks(
    n1={"endpoints": [{"fromCidr": "10.0.0.0/8"}]},
    n3={"endpoints": [{"fromCidr": "10.7.0.0/16"}]},
)
REGISTRY = networks(n4={"endpoints": [{"fromRegistry": "Kubernetes"}]})


@pytest.mark.parametrize(
    ("objects", "wanted"),
    [
        ([workload_entry("vm", "10.5.0.1", labels=APP)], ""),
        ([workload_entry("vm", "10.5.0.1", labels=APP), RANGES], "n1"),
        ([workload_entry("vm", "10.7.0.1", labels=APP), RANGES], "n3"),
        ([workload_entry("vm", "10.5.0.1", labels=APP, network="n9"), RANGES], "n9"),
        ([workload_entry("vm", "10.5.0.1", labels={**APP, **N2}, network="n9"), RANGES], "n2"),
        (
            [pod("10.5.0.1", APP), networks(n4={"endpoints": [{"fromRegistry": "Kubernetes"}]})],
            "n4",
        ),
        ([pod("10.5.0.1", {**APP, **N2}), RANGES], "n2"),
        ([pod("10.5.0.1", APP), object_of(NAMESPACE, "istio-system", {}, labels=N2)], "n2"),
    ],
)
def test_the_network_of_an_endpoint(objects: list[ConfigObject], wanted: str) -> None:
    assert network_of(*objects) == [wanted]


def test_gateways_are_named_by_address_or_by_the_service_that_they_are() -> None:
    found = model(
        networks(
            n1={"gateways": [{"address": "192.0.2.9", "port": 15443, "locality": "a/b"}]},
            n2={
                "gateways": [
                    {
                        "registryServiceName": "eastwest.istio-system.svc.cluster.local",
                        "port": 443,
                    }
                ]
            },
        ),
        object_of(
            KUBERNETES_SERVICE,
            "eastwest",
            {"ports": [{"port": 443}], "externalIPs": ["192.0.2.3"]},
            namespace="istio-system",
            status={"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}},
        ),
    ).networks

    assert found.gateways_of("n1") == (NetworkGateway("n1", "192.0.2.9", 15443, "a/b"),)
    assert found.gateways_of("n2") == (
        NetworkGateway("n2", "192.0.2.2", 443),
        NetworkGateway("n2", "192.0.2.3", 443),
    )
    assert found.gateways_of("n3") == ()
    assert found.weight_factor == 2


@pytest.mark.parametrize(
    ("labels", "port"), [({}, 15443), ({"networking.istio.io/gatewayPort": "443"}, 443)]
)
def test_a_service_with_the_label_of_a_network_is_a_gateway_of_it(
    labels: dict[str, str], port: int
) -> None:
    found = model(gateway_service("192.0.2.2", **labels)).networks

    assert found.gateways_of("n2") == (
        NetworkGateway("n2", "192.0.2.2", port, cluster="Kubernetes"),
    )


def test_names_of_gateways_are_replaced_by_their_addresses_where_these_are_known() -> None:
    config = networks(n1={"gateways": [{"address": "gw.example.com", "port": 15443}]})

    unknown = model(config).networks
    known = model(config, addresses={"gw.example.com": ("192.0.2.1", "192.0.2.2")}).networks

    assert unknown.names == {"gw.example.com"}
    assert [each.address for each in known.gateways_of("n1")] == ["192.0.2.1", "192.0.2.2"]


def test_an_endpoint_without_an_address_is_there_if_its_network_has_gateways() -> None:
    entry = workload_entry("vm", "", labels=APP, network="n2")

    assert network_of(entry) == []
    assert network_of(entry, gateway_service("192.0.2.2")) == ["n2"]


def test_a_document_of_networks_is_one_of_the_configuration(
    model_of: Callable[..., MeshModel],
) -> None:
    found = model_of(
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshNetworks\nspec:\n  networks:\n"
        "    n2: {gateways: [{address: 192.0.2.1, port: 15443}]}\n"
    )

    assert set(found.networks.gateways) == {"n2"}
