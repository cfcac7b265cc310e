"""Pods that are written into again: most of it says nothing to the mesh, and then costs nothing."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from mesh_discovery._metrics import Metrics
from mesh_discovery.config._file_content import FileContent
from mesh_discovery.config._objects import ConfigObject, ObjectKey
from mesh_discovery.config._origins import InStore
from mesh_discovery.config._snapshot import Snapshot, edited_snapshot
from mesh_discovery.config.kinds._mesh_networks import MESH_NETWORKS
from mesh_discovery.config.kinds.kubernetes._pod import POD
from mesh_discovery.model._facts import Facts
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.plan.gateway._account_workloads import account_workloads, known_labels
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push.changes._difference import difference
from mesh_objects import object_of, pod, service, service_entry, slice_of, snapshot
from xds_server import PushRequest

APP = {"app": "a"}


def edited(before: Snapshot, gone: list[ConfigObject], come: list[ConfigObject]) -> Snapshot:
    found = edited_snapshot(
        before, [FileContent(objects=tuple(gone))], [FileContent(objects=tuple(come))]
    )
    assert found is not None
    return found


class Mesh:
    """A control plane with so many services, each with a slice and two pods."""

    def __init__(self, services: int) -> None:
        self.pod = pod("10.0.0.0", {"app": "s0"})
        objects = [self.pod]
        for number in range(services):
            name, other = f"s{number}", f"10.0.{number}.1"
            objects += [
                service(name, selector={"app": name}),
                slice_of(name, f"10.0.{number}.0", other, pods=True),
                pod(other, {"app": name}),
            ]
            if number:
                objects.append(pod(f"10.0.{number}.0", {"app": name}))
        self.snapshot = snapshot(objects)
        self.told: list[PushRequest] = []
        self.store = ConfigStore(
            Facts(snapshot=self.snapshot),
            metrics=Metrics(CollectorRegistry(), version="test"),
            trust_domain="cluster.local",
            domain="cluster.local",
            scope_gateways=False,
            strict_namespaces=False,
        )

    def read(self, **fields: Any) -> Facts:
        """Read the pod after something was written into it."""
        later = replace(self.pod, **fields)
        self.snapshot = edited(self.snapshot, [self.pod], [later])
        self.pod = later
        return Facts(snapshot=self.snapshot)

    def edit(self, **fields: Any) -> None:
        self.store.serve(self.read(**fields), self.told.append)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, those of C too."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_pod_without_effect_is_decided_by_the_same_work_in_a_mesh_of_any_size() -> None:
    counts = []
    for size in (4, 200):
        mesh = Mesh(size)
        mesh.edit(annotations=(("checked", "1"),))
        facts = mesh.read(annotations=(("checked", "2"),))
        counts.append(calls(partial(mesh.store.serve, facts, mesh.told.append)))
        assert mesh.told == []
    assert counts[0] == counts[1]


def test_an_edit_after_some_without_effect_is_told() -> None:
    mesh = Mesh(3)
    mesh.edit(annotations=(("checked", "1"),))
    mesh.edit(annotations=(("checked", "2"),))
    mesh.edit(labels=(("app", "s0"), ("version", "v2")))
    assert [{key.name for key in each.configs_updated} for each in mesh.told] == [
        {"s0.default.svc.cluster.local", "10.0.0.0"}
    ]
    mesh.edit(annotations=(("checked", "3"),))
    assert len(mesh.told) == 1
    mesh.edit(labels=(("app", "none"),))
    assert len(mesh.told) == 2


GRPC = (("inject.istio.io/templates", "grpc-agent"),)


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


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": (("app", "s0"), ("version", "v2"))},
        {"annotations": GRPC},
        {"spec": pod("10.0.0.0", nodeName="n").spec},
        {"spec": pod("10.0.0.0", serviceAccountName="another").spec},
    ],
)
def test_what_is_read_of_a_pod_has_an_effect(fields: dict[str, Any]) -> None:
    mesh = Mesh(3)
    mesh.edit(**fields)
    assert len(mesh.told) == 1


_pods = st.builds(
    lambda address, label, annotation, ready, ending, account: replace(
        pod(address, {"app": label}, ready=ready, serviceAccountName=account),
        annotations=annotation,
        is_ending=ending,
    ),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    st.sampled_from("ab"),
    st.sampled_from([(), (("x", "1"),), (("x", "2"),), GRPC]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "app"]),
)
_others = st.one_of(
    st.builds(service, st.sampled_from("ab"), selector=st.sampled_from([None, APP, {"app": "b"}])),
    st.builds(
        lambda name, label: service_entry(
            name, f"{name}.test", workloadSelector={"labels": {"app": label}}
        ),
        st.sampled_from(["e1", "e2"]),
        st.sampled_from("ab"),
    ),
    st.builds(
        slice_of,
        st.sampled_from("ab"),
        st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        name=st.sampled_from(["s1", "s2"]),
        pods=st.booleans(),
    ),
)
_of_clusters = st.builds(
    lambda item, cluster: (
        replace(item, origin=InStore(store=cluster, cluster=cluster)) if cluster else item
    ),
    _pods | _others,
    st.sampled_from(["", "", "east"]),
)
_steps = st.lists(
    st.tuples(st.booleans(), st.lists(_of_clusters, min_size=1, max_size=2)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(_steps)
def test_models_after_edits_of_pods_are_those_of_a_fresh_start(
    steps: list[tuple[bool, list[ConfigObject]]],
) -> None:
    objects: dict[ObjectKey, ConfigObject] = {}
    now = snapshot([])
    model: MeshModel | None = None
    for removes, changed in steps:
        given_now = {each.key: each for each in changed}
        gone = [objects[key] for key in given_now if key in objects]
        come = [] if removes else list(given_now.values())
        objects = {key: each for key, each in objects.items() if key not in given_now}
        objects |= {each.key: each for each in come}
        now = edited(now, gone, come)
        before, model = model, build_model(Facts(snapshot=now), before=model)
        fresh = build_model(Facts(snapshot=snapshot(objects.values())))
        assert [replace(each, auto_addresses=()) for each in model.services] == [
            replace(each, auto_addresses=()) for each in fresh.services
        ]
        assert account_workloads(model, "default") == account_workloads(fresh, "default")
        assert known_labels(model, "default") == known_labels(fresh, "default")
        if before is not None and model.says_the_same_as(before):
            assert difference(before, model) is None
            assert {each.kind for each in (*gone, *come)} <= {POD.name}
