"""Objects in memory as a source: what it knows after any calls, and when it says so."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mesh_discovery
from envoy_config.changes import difference
from istio_config import InStore, Snapshot
from mesh_discovery import (
    ConfigError,
    ConfigLoader,
    DiscoveryConfig,
    MemorySource,
    SettingsError,
    running,
)
from mesh_model import Facts, build_model


def entry(name: str, namespace: str = "default", *, port: int = 80, created: str = "") -> Any:
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": metadata | ({"creationTimestamp": created} if created else {}),
        "spec": {
            "hosts": [f"{name}.test"],
            "resolution": "STATIC",
            "ports": [{"number": port, "name": "http", "protocol": "HTTP"}],
            "endpoints": [{"address": "10.0.0.1"}],
        },
    }


def mesh_config(root: str) -> Any:
    return {
        "apiVersion": "mesh.istio.io/v1alpha1",
        "kind": "MeshConfig",
        "spec": {"rootNamespace": root},
    }


def snapshot(source: MemorySource) -> Snapshot:
    return source.snapshot


def names(source: MemorySource) -> list[str]:
    return [each.name for each in snapshot(source).objects]


def test_objects_say_what_files_of_them_say(config_dir: Path) -> None:
    objects = [mesh_config("root"), entry("a"), entry("b", "root", created="2024-01-01T00:00:00Z")]
    (config_dir / "all.yaml").write_text("\n---\n".join(map(json.dumps, objects)))

    of_files = ConfigLoader(config_dir).load().snapshot
    of_memory = snapshot(MemorySource(objects))

    assert [(each.key, each.spec, each.created) for each in of_memory.objects] == [
        (each.key, each.spec, each.created) for each in of_files.objects
    ]
    assert of_memory.mesh_config == of_files.mesh_config


def test_of_a_call_with_mistakes_nothing_is_taken_and_all_are_reported() -> None:
    source = MemorySource([entry("a")])
    wrong, worse = entry("b"), entry("c", "shop")
    wrong["spec"]["resolution"] = "STATICS"
    worse["spec"]["adresses"] = []

    with pytest.raises(ConfigError) as found:
        source.put(entry("d"), wrong, worse)

    assert [str(each).partition(" one of")[0] for each in found.value.problems] == [
        "memory: ServiceEntry default/b: spec.resolution: expected",
        "memory: ServiceEntry shop/c: spec.adresses: unknown field; did you mean addresses?",
    ]
    assert names(source) == ["a"]


def test_two_objects_of_one_key_in_a_call_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="a second ServiceEntry default/a"):
        MemorySource([entry("a"), entry("a", port=81)])


def test_what_has_no_name_is_reported_by_its_place_in_the_call() -> None:
    with pytest.raises(ConfigError, match=r"mine\[1\]: the field kind is missing"):
        MemorySource([entry("a"), {"spec": {}}], name="mine")


def test_a_later_change_of_the_programs_data_is_none_of_the_source() -> None:
    mine = entry("a")
    source = MemorySource([mine])
    before = snapshot(source)
    mine["spec"]["hosts"][0] = "other.test"
    source.put(entry("b"))
    assert before.objects[0] in snapshot(source).objects
    assert snapshot(source).objects[0].spec.hosts == ("a.test",)  # type: ignore[attr-defined]


def test_objects_tell_the_store_and_the_version_that_they_are_of() -> None:
    item = entry("a", "shop")
    item["metadata"] |= {"uid": "u-1", "resourceVersion": "17", "generation": 3}
    (found,) = snapshot(MemorySource([item], name="east's API", cluster="east")).objects

    assert found.origin == InStore(
        store="east's API", cluster="east", uid="u-1", resource_version="17", generation=3
    )
    assert found.key == ("ServiceEntry.networking.istio.io", "shop", "a", "east")
    assert str(found.problem(("spec", "hosts", 0), "is wrong")) == (
        "east's API: ServiceEntry shop/a: spec.hosts[0]: is wrong"
    )
    assert found.place == "east's API: ServiceEntry shop/a"
    assert found.moved(by=3) == found


def test_an_object_of_another_version_that_says_the_same_is_not_pushed() -> None:
    item = entry("a", "shop")
    source = MemorySource([item])
    before = build_model(Facts(snapshot=source.snapshot))
    source.put(item | {"metadata": item["metadata"] | {"resourceVersion": "18"}})
    after = build_model(Facts(snapshot=source.snapshot), before=before)

    (found,) = source.snapshot.objects
    assert found.origin == InStore(store="memory", resource_version="18")
    assert difference(before, after) is None


def test_removing_what_is_not_there_is_a_key_error() -> None:
    source = MemorySource([entry("a", "shop")])
    with pytest.raises(KeyError, match="ServiceEntry default/a"):
        source.remove("ServiceEntry", "a")
    source.remove("ServiceEntry.networking.istio.io", "a", namespace="shop")
    assert names(source) == []


_names = st.sampled_from("abc")
_objects = st.one_of(
    st.builds(
        entry,
        _names,
        st.sampled_from(["default", "shop"]),
        port=st.sampled_from([80, 81]),
        created=st.sampled_from(["", "2024-01-01T00:00:00Z", "2023-01-01T00:00:00Z"]),
    ),
    st.builds(mesh_config, st.sampled_from(["shop", "default"])),
)


def key(item: Mapping[str, Any]) -> tuple[Any, ...]:
    metadata = item.get("metadata", {})
    return item["kind"], metadata.get("namespace"), metadata.get("name")


_few = st.lists(_objects, max_size=4, unique_by=key)


@given(_few, st.lists(st.tuples(st.sampled_from(["put", "replace", "remove"]), _few), max_size=6))
def test_after_any_calls_it_is_as_a_fresh_one_with_the_same_objects(
    first: list[Any], calls: list[tuple[str, list[Any]]]
) -> None:
    source, there = MemorySource(first), {key(each): each for each in first}
    model = build_model(Facts(snapshot=snapshot(source)))
    for call, objects in calls:
        given = {key(each): each for each in objects}
        if call == "put":
            source.put(*objects)
            there |= given
        elif call == "replace":
            source.replace(objects)
            there = given
        else:
            for gone in [each for each in given if each in there and each[0] == "ServiceEntry"]:
                source.remove(gone[0], gone[2], namespace=gone[1])
                del there[gone]

        fresh = snapshot(MemorySource(there.values()))
        found = snapshot(source)
        assert found.objects == fresh.objects
        assert {kind: each for kind, each in found.by_kind.items() if each} == dict(fresh.by_kind)
        assert found.mesh_config == fresh.mesh_config
        assert len(found.notes) == len(fresh.notes)
        model = build_model(Facts(snapshot=found), before=model)
        assert difference(model, build_model(Facts(snapshot=fresh), before=model)) is None


async def test_a_change_is_called_back_while_the_source_is_followed() -> None:
    times: list[float | None] = []

    def changed(*, at: float | None = None) -> None:
        times.append(at)

    source = MemorySource([entry("a")])
    async with source.following(changed):
        assert times == []
        source.replace([entry("a")])
        assert times == []
        source.put(entry("a", port=81))
        assert len(times) == 1
    source.put(entry("b"))
    assert len(times) == 1


async def test_a_second_control_plane_of_one_source_is_an_error() -> None:
    def changed(*, at: float | None = None) -> None:
        raise AssertionError(at)

    source = MemorySource()
    async with source.following(changed):
        with pytest.raises(RuntimeError, match="the source memory is followed already"):
            async with source.following(changed):
                raise AssertionError
    async with source.following(changed):
        pass


async def test_a_control_plane_has_a_source_of_objects(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nor a source of objects"):
        async with running(DiscoveryConfig(ca_dir=tmp_path / "ca")):
            raise AssertionError


async def test_the_file_of_the_mesh_config_stands_beside_others(tmp_path: Path) -> None:
    config = DiscoveryConfig(ca_dir=tmp_path / "ca", mesh_config=tmp_path / "mesh.yaml")
    with pytest.raises(SettingsError, match="beside config_dir"):
        async with running(config, sources=[MemorySource()]):
            raise AssertionError


def test_no_name_of_the_face_is_hidden_by_a_module() -> None:
    for each in mesh_discovery.__all__:
        assert not isinstance(getattr(mesh_discovery, each), ModuleType), each
