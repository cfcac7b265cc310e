"""Pods and slices of several clusters, which may have the same names."""

from dataclasses import replace

from istio_config import ConfigObject, InStore
from istio_config.kinds.mesh_networks import MESH_NETWORKS
from mesh_model import Facts, build_model
from mesh_objects import edited, object_of, pod, service, slice_of, snapshot

APP = {"app": "a"}


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

    made = build_model(Facts(snapshot=snapshot(objects))).by_key

    endpoints = {
        host.partition(".")[0]: [(each.address, each.cluster, each.labels) for each in of.endpoints]
        for (_, host), of in made.items()
    }
    assert endpoints == {
        "a": [("10.0.0.1", "", ())],
        "b": [("10.0.0.2", "east", ())],
        "c": [("10.0.0.3", "east", tuple(APP.items()))],
    }


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

    made = build_model(Facts(snapshot=snapshot(objects))).services

    found = {each.host[0]: [(one.address, one.network) for one in each.endpoints] for each in made}
    assert found == {"a": [("10.0.0.1", "")], "b": [("10.0.0.2", "n2")], "c": [("10.0.0.3", "n2")]}
