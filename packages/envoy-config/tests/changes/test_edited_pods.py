"""After any edits of pods and what selects them, proxies are pushed to as after a fresh start."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from envoy_config.changes import difference
from envoy_config.plan.gateway._account_workloads import account_workloads, known_labels
from istio_config import ConfigObject, InStore, ObjectKey
from istio_config.kinds.kubernetes import POD
from mesh_model import Facts, MeshModel, build_model
from mesh_objects import edited, pod, service, service_entry, slice_of, snapshot

APP = {"app": "a"}
GRPC = (("inject.istio.io/templates", "grpc-agent"),)
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
