"""Whatever valid mesh there is, Envoy takes all that its proxies are given."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings

from drawn_meshes import Mesh, envoy_says, faults, loaded, meshes

_SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.data_too_large)


@given(mesh=meshes())
@settings(max_examples=15, suppress_health_check=_SLOW_TO_DRAW)
def test_resources_of_a_valid_mesh_keep_envoys_rules(mesh: Mesh) -> None:
    note(mesh.yaml)
    context, problems = loaded(mesh.yaml)

    assert problems == ()
    assert {node.id: list(faults(context, node)) for node in mesh.nodes} == {
        node.id: [] for node in mesh.nodes
    }


@pytest.mark.slow
@given(mesh=meshes())
@settings(
    max_examples=30,
    suppress_health_check=(*_SLOW_TO_DRAW, HealthCheck.function_scoped_fixture),
)
def test_an_envoy_takes_every_resource_of_a_valid_mesh(mesh: Mesh, envoy_binary: Path) -> None:
    note(mesh.yaml)
    context, problems = loaded(mesh.yaml)

    assert problems == ()
    assert {node.id: envoy_says(envoy_binary, context, node) for node in mesh.nodes} == {
        node.id: "" for node in mesh.nodes
    }
