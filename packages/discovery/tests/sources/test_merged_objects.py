"""Several sources of objects: all are served, once, and after any edits as after a start."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from istio_config import InStore, Snapshot, object_key
from mesh_discovery import MemorySource
from mesh_discovery.sources._all_sources import Sources
from mesh_discovery.sources._merged_objects import MergedObjects

NAME = "ServiceEntry default/a"


def entry(name: str, *, port: int = 80, namespace: str = "default", dated: bool = False) -> Any:
    """Return a ServiceEntry; dated: it says when it was created."""
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": metadata | ({"creationTimestamp": "2024-01-01T00:00:00Z"} if dated else {}),
        "spec": {
            "hosts": [f"{name}.test"],
            "resolution": "NONE",
            "ports": [{"number": port, "name": "http", "protocol": "HTTP"}],
        },
    }


def mesh_config(root: str) -> Any:
    return {
        "apiVersion": "mesh.istio.io/v1alpha1",
        "kind": "MeshConfig",
        "spec": {"rootNamespace": root},
    }


def ports(snapshot: Snapshot) -> dict[str, int]:
    return {each.name: each.spec.ports[0].number for each in snapshot.objects}  # type: ignore[attr-defined]


def problems(merged: MergedObjects) -> list[str]:
    return [str(problem) for each in merged.reading.wrong for problem in each.problems]


def test_the_objects_of_all_sources_are_served() -> None:
    merged = MergedObjects([MemorySource([entry("a")]), MemorySource([entry("b", port=81)])])
    assert ports(merged.snapshot) == {"a": 80, "b": 81}
    assert problems(merged) == []


def test_an_object_of_two_sources_is_a_problem_and_the_earlier_sources_is_served() -> None:
    first, second = MemorySource(name="first"), MemorySource([entry("a", port=81)], name="second")
    merged = MergedObjects([first, second])
    assert ports(merged.snapshot) == {"a": 81}

    first.put(entry("a"))
    assert ports(merged.snapshot) == {"a": 80}
    assert problems(merged) == [
        f"second: {NAME}: a second {NAME}, the first is at first: {NAME}; rename or remove one"
    ]
    since = merged.reading.wrong[0].since

    second.put(entry("a", port=82))
    assert ports(merged.snapshot) == {"a": 80}
    assert [each.since for each in merged.reading.wrong] == [since]

    first.remove("ServiceEntry", "a")
    assert ports(merged.snapshot) == {"a": 82}
    assert problems(merged) == []


def test_one_key_in_two_clusters_is_two_objects_but_there_is_one_mesh_config() -> None:
    merged = MergedObjects(
        [
            MemorySource([entry("a"), mesh_config("east-root")], name="east", cluster="east"),
            MemorySource([entry("a"), mesh_config("west-root")], name="west", cluster="west"),
        ]
    )
    found = [each.origin for each in merged.snapshot.objects if each.name == "a"]
    assert [each.cluster for each in found] == ["east", "west"]
    assert merged.snapshot.mesh_config.root_namespace == "east-root"
    assert [each.partition(";")[0] for each in problems(merged)] == [
        (
            "west: MeshConfig default/default: a second mesh config, the first is at east: "
            "MeshConfig default/default"
        )
    ]


def test_ages_are_of_all_sources_together() -> None:
    rooted = MemorySource([mesh_config("zoo"), entry("a", namespace="a")])
    other = MemorySource([entry("z", namespace="zoo"), entry("b", namespace="b")])
    merged = MergedObjects([rooted, other])
    names = [each.name for each in merged.snapshot.objects if each.kind == "ServiceEntry"]
    assert names == ["z", "a", "b"]


def test_what_is_read_again_and_says_the_same_is_the_same_snapshot() -> None:
    source = MemorySource([entry("a")])
    merged = MergedObjects([source, MemorySource([entry("b")])])
    before = merged.snapshot
    source.replace([entry("a")])
    assert merged.snapshot is before


def test_an_edit_of_one_source_leaves_all_other_objects_as_they_were() -> None:
    source = MemorySource([entry("a"), entry("b")])
    merged = MergedObjects([source, MemorySource([entry("c")])])
    before = merged.snapshot
    source.put(entry("a", port=81))
    edit = merged.snapshot.edit_since(before.identity)
    assert edit is not None
    assert [each.name for each in edit.gone] == [each.name for each in edit.come] == ["a"]
    assert merged.snapshot.objects[1:] == before.objects[1:]


_OBJECTS = st.lists(
    st.one_of(
        st.builds(
            entry,
            st.sampled_from("ab"),
            port=st.integers(80, 81),
            namespace=st.sampled_from(["one", "two"]),
            dated=st.booleans(),
        ),
        st.builds(mesh_config, st.sampled_from(["one", "two"])),
    ),
    max_size=4,
)


def distinct(objects: list[Any]) -> list[Any]:
    return list({(each["kind"], str(name_of(each))): each for each in objects}.values())


def name_of(item: Any) -> tuple[str, ...]:
    metadata = item.get("metadata", {})
    return metadata.get("namespace", ""), metadata.get("name", "")


@given(st.lists(st.tuples(st.integers(0, 2), _OBJECTS.map(distinct)), max_size=8))
def test_after_any_edits_all_is_as_after_a_start(edits: list[tuple[int, list[Any]]]) -> None:
    clusters = ["", "", "east"]
    sources = [MemorySource(name=f"s{i}", cluster=each) for i, each in enumerate(clusters)]
    held: list[list[Any]] = [[], [], []]
    merged = MergedObjects(sources)
    for index, objects in edits:
        sources[index].replace(objects)
        held[index] = objects
        fresh = MergedObjects(
            [MemorySource(o, name=f"s{i}", cluster=clusters[i]) for i, o in enumerate(held)]
        )
        now, wanted = merged.snapshot, fresh.snapshot
        assert [(object_key(e), e.spec, e.created) for e in now.objects] == [
            (object_key(e), e.spec, e.created) for e in wanted.objects
        ]
        assert (now.mesh_config, bool(now.notes)) == (wanted.mesh_config, bool(wanted.notes))
        assert sorted(problems(merged)) == sorted(problems(fresh))


async def test_a_change_before_sources_are_followed_is_served_once_they_are() -> None:
    calls: list[float | None] = []

    def changed(*, at: float | None = None) -> None:
        calls.append(at)

    one, other = MemorySource([entry("a")]), MemorySource([entry("b")])
    sources = Sources(MergedObjects([one, other]))
    assert ports(sources.facts.snapshot) == {"a": 80, "b": 80}
    async with sources.following(changed):
        assert calls == []
    other.put(entry("b", port=81))
    async with sources.following(changed):
        assert calls == [None]
        assert ports(sources.facts.snapshot) == {"a": 80, "b": 81}
        one.put(entry("a", port=81))
        assert len(calls) == 2


def test_origins_name_the_cluster() -> None:
    (found,) = MergedObjects([MemorySource([entry("a")], cluster="east")]).snapshot.objects
    assert replace(found).origin == InStore(store="memory", cluster="east")
