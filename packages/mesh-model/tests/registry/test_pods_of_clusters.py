"""Pods and slices of several clusters, which may have the same names."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from istio_config import ConfigObject, InStore
from istio_config.kinds.kubernetes import NAMESPACE, NODE
from istio_config.kinds.mesh_networks import MESH_NETWORKS
from mesh_model import Facts, build_model
from mesh_objects import edited, object_of, pod, service, slice_of, snapshot
from network_objects import gateway_service as gateway

APP = {"app": "a"}
NETWORK = {"topology.istio.io/network": "n2"}


def in_east(item: ConfigObject) -> ConfigObject:
    return replace(item, origin=InStore(store="east", cluster="east"))


def test_pods_and_slices_of_one_name_in_two_clusters_are_each_their_services_own() -> None:
    one = [service("a"), slice_of("a", "10.0.0.1", pods=True), pod("10.0.0.1")]
    other = [
        *(service("b"), slice_of("b", "10.0.0.2", name="a-1", pods=True)),
        *(service("c", selector=APP), pod("10.0.0.3", APP), slice_of("a", "10.0.0.4")),
    ]
    labelled = replace(pod("10.0.0.1", {"in": "east"}), labels=(("in", "east"),))
    objects = [*one, *map(in_east, [*other, labelled]), pod("10.0.0.5", APP)]

    services = build_model(Facts(snapshot=snapshot(objects))).by_key

    endpoints = {
        host.partition(".")[0]: [(each.address, each.cluster, each.labels) for each in of.endpoints]
        for (_, host), of in services.items()
    }
    assert endpoints == {
        "a": [("10.0.0.1", "", ())],
        "b": [("10.0.0.2", "east", ())],
        "c": [("10.0.0.3", "east", tuple(APP.items()))],
    }


def test_services_of_one_name_in_two_clusters_are_one_with_the_endpoints_of_both() -> None:
    """As in Istio's multi-primary: each endpoint is in its cluster's network, and locality."""
    node = object_of(NODE, "n", {}, namespace="", labels={"topology.kubernetes.io/region": "r1"})
    far = replace(node, labels=(("topology.kubernetes.io/region", "r2"),))
    root = object_of(NAMESPACE, "istio-system", {}, namespace="", labels=NETWORK)
    pods = [pod(f"10.{each}.0.1", APP, nodeName="n") for each in (1, 2)]
    own = [node, pods[0], slice_of("a", "10.1.0.1", pods=True), service("a", clusterIP="10.96.0.1")]
    further = [far, root, pods[1], slice_of("a", "10.2.0.1", pods=True)]
    further += [service("a", clusterIP="10.96.0.2"), gateway("192.0.2.1")]

    model = build_model(Facts(snapshot=snapshot([*own, *map(in_east, further)])))

    (found,) = (each for each in model.services if each.name == "a")
    assert [
        (each.address, each.cluster, each.network, each.locality) for each in found.endpoints
    ] == [
        ("10.1.0.1", "", "", "r1"),
        ("10.2.0.1", "east", "n2", "r2"),
    ]
    assert found.addresses == ("10.96.0.1",)
    assert [each.address for each in model.networks.gateways_of("n2", "east")] == ["192.0.2.1"]


def test_a_headless_service_leads_to_endpoints_of_one_cluster() -> None:
    own = [service("a", clusterIP="None"), slice_of("a", "10.1.0.1")]
    further = [service("a", clusterIP="None"), slice_of("a", "10.2.0.1")]
    (found,) = build_model(Facts(snapshot=snapshot([*own, *map(in_east, further)]))).services
    assert [each.address for each in found.endpoints] == ["10.1.0.1"]


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(1, 3), max_size=3)), max_size=6))
def test_after_any_edits_a_service_of_two_clusters_is_that_of_a_fresh_start(
    edits: list[tuple[bool, set[int]]],
) -> None:
    objects = [service("a"), slice_of("a"), in_east(service("a")), in_east(slice_of("a"))]
    model = build_model(Facts(snapshot=snapshot(objects)))
    for east, addresses in edits:
        found = slice_of("a", *(f"10.{1 + east}.0.{each}" for each in sorted(addresses)))
        objects[3 if east else 1] = in_east(found) if east else found
        now = Facts(snapshot=snapshot(objects))
        model = build_model(now, before=model)
        assert model.services == build_model(now).services


def test_objects_of_one_name_in_two_clusters_are_in_one_order_after_any_edit() -> None:
    one = pod("10.0.0.1")
    other, later = in_east(one), replace(one, annotations=(("checked", "1"),))
    after = edited(snapshot([one, other]), [one], [later])
    assert after.objects == snapshot([other, later]).objects == (later, other)


def test_pods_of_a_cluster_are_in_the_network_of_its_registry() -> None:
    networks = object_of(
        MESH_NETWORKS, "default", {"networks": {"n2": {"endpoints": [{"fromRegistry": "east"}]}}}
    )
    objects = [networks, service("a"), slice_of("a", "10.0.0.1"), pod("10.0.0.2", APP)]
    further = [service("b"), slice_of("b", "10.0.0.2"), service("c", selector=APP)]
    objects += map(in_east, [*further, pod("10.0.0.3", APP)])

    services = build_model(Facts(snapshot=snapshot(objects))).services

    found = {
        each.host[0]: [(one.address, one.network) for one in each.endpoints] for each in services
    }
    assert found == {"a": [("10.0.0.1", "")], "b": [("10.0.0.2", "n2")], "c": [("10.0.0.3", "n2")]}
