"""A change of a configuration remakes the services that it concerns, and leaves the others."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from istio_config import ConfigObject, ObjectKey
from istio_config.kinds.kubernetes import NODE
from mesh_model._services import Service
from mesh_model._visibility import NO_OWNERS
from mesh_model.registry._service_registry import ServiceRegistry, build_registry
from mesh_objects import object_of, pod, service, service_entry, slice_of, snapshot, workload_entry
from mesh_settings import DOMAIN

APP = {"app": "a"}


def remade(
    before: ServiceRegistry, objects: list[ConfigObject]
) -> tuple[ServiceRegistry, set[str]]:
    """Make the services of other objects; return the hosts of those that are others."""
    after = build_registry(snapshot(objects), before=before, domain=DOMAIN, owners=NO_OWNERS)
    old = set(map(id, before.services))
    return after, {each.host.partition(".")[0] for each in after.services if id(each) not in old}


def test_an_edited_slice_remakes_its_service_alone() -> None:
    objects = [service(f"s{at}") for at in range(20)]
    objects += [slice_of(f"s{at}", f"10.0.0.{at}") for at in range(20)]
    before = build_registry(snapshot(objects), domain=DOMAIN, owners=NO_OWNERS)
    objects[23] = slice_of("s3", "10.0.0.3", "10.0.1.3")

    after, changed = remade(before, objects)

    assert (after.count, changed) == (1, {"s3"})
    (edited,) = (each for each in after.services if each.name == "s3")
    assert [each.address for each in edited.endpoints] == ["10.0.0.3", "10.0.1.3"]


def test_a_second_slice_of_a_service_remakes_it_alone() -> None:
    objects = [service("a"), service("b"), slice_of("a", "10.0.0.1"), slice_of("b", "10.0.0.2")]
    before = build_registry(snapshot(objects), domain=DOMAIN, owners=NO_OWNERS)

    after, changed = remade(before, [*objects, slice_of("a", "10.0.0.3", name="a-2")])

    assert (after.count, changed) == (1, {"a"})


def test_a_pod_remakes_the_services_that_select_it_or_have_it_as_an_endpoint() -> None:
    objects = [
        service("selects", selector=APP),
        service("names"),
        slice_of("names", "10.0.0.1", pods=True),
        service_entry("entry", "entry.test", workloadSelector={"labels": APP}),
        service("other", selector={"app": "b"}),
        service("none"),
        pod("10.0.0.1", APP),
    ]
    before = build_registry(snapshot(objects), domain=DOMAIN, owners=NO_OWNERS)
    objects[-1] = pod("10.0.0.1", {**APP, "version": "v2"})

    after, changed = remade(before, objects)

    assert (after.count, changed) == (3, {"selects", "names", "entry"})


def test_a_label_of_a_node_may_concern_every_service_and_changes_those_with_pods_there() -> None:
    objects = [service("a", selector=APP), service("b"), slice_of("b", "10.0.0.1")]
    objects += [pod("10.0.0.2", APP, nodeName="n"), object_of(NODE, "n", {})]
    before = build_registry(snapshot(objects), domain=DOMAIN, owners=NO_OWNERS)
    objects[-1] = object_of(NODE, "n", {}, labels={"topology.kubernetes.io/region": "north"})

    after, changed = remade(before, objects)

    assert (after.count, changed) == (2, {"a"})


def test_objects_that_are_read_again_and_say_the_same_change_nothing() -> None:
    def objects() -> list[ConfigObject]:
        return [
            service("a", selector=APP),
            service("b"),
            slice_of("b", "10.0.0.1"),
            pod("10.0.0.2", APP),
        ]

    before = build_registry(snapshot(objects()), domain=DOMAIN, owners=NO_OWNERS)

    after, changed = remade(before, objects())

    assert (after.count, changed) == (0, set())


def without_auto_addresses(registry: ServiceRegistry) -> list[Service]:
    """Return the services, which have other allocated addresses by what there was before."""
    return [replace(each, auto_addresses=()) for each in registry.services]


_objects = st.one_of(
    st.builds(
        service,
        st.sampled_from("ab"),
        selector=st.sampled_from([None, APP, {"app": "b"}]),
    ),
    st.builds(
        lambda name, host: service(name, type="ExternalName", externalName=host),
        st.sampled_from("cd"),
        st.sampled_from(["a.default.svc.cluster.local", "c.default.svc.cluster.local", "x.test"]),
    ),
    st.builds(slice_of, st.sampled_from("ab"), st.sampled_from(["10.0.0.1", "10.0.0.2"]),
              name=st.sampled_from(["s1", "s2"]), pods=st.booleans()),
    st.builds(pod, st.sampled_from(["10.0.0.1", "10.0.0.2"]),
              st.sampled_from([APP, {"app": "b"}]), ready=st.booleans()),
    st.builds(
        service_entry,
        st.sampled_from(["e1", "e2"]),
        st.sampled_from(["x.test", "a.default.svc.cluster.local"]),
        endpoints=st.sampled_from([(), ({"address": "10.9.0.1"},)]),
    ),
    st.builds(
        lambda name, labels: service_entry(name, "x.test", workloadSelector={"labels": labels}),
        st.sampled_from(["e1", "e3"]),
        st.sampled_from([APP, {"app": "b"}]),
    ),
    st.builds(workload_entry, st.sampled_from(["w1", "w2"]),
              st.sampled_from(["10.5.0.1", "10.5.0.2"]),
              labels=st.sampled_from([APP, {"app": "b"}])),
)  # fmt: skip
_edits = st.lists(
    st.tuples(st.booleans(), st.lists(_objects, min_size=1, max_size=3)), min_size=1, max_size=6
)


@settings(max_examples=300, deadline=None)
@given(_edits)
def test_services_built_by_edits_are_those_built_at_once(
    edits: list[tuple[bool, list[ConfigObject]]],
) -> None:
    objects: dict[ObjectKey, ConfigObject] = {}
    registry: ServiceRegistry | None = None
    for removes, changed in edits:
        for each in changed:
            if removes:
                objects.pop(each.key, None)
            else:
                objects[each.key] = each
        now = snapshot(objects.values())
        registry = build_registry(now, before=registry, domain=DOMAIN, owners=NO_OWNERS)
        assert without_auto_addresses(registry) == without_auto_addresses(
            build_registry(now, domain=DOMAIN, owners=NO_OWNERS)
        )
