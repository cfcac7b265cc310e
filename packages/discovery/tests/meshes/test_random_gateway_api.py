"""Whatever valid objects of the Gateway API there are, Envoy takes what they come to."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from drawn_meshes import envoy_says, faults, loaded
from drawn_meshes._draws import Json
from drawn_meshes._gateway_api import GATEWAY_NAME, backend_services, gateway_api
from drawn_meshes._mesh import yaml_of
from xds_server import Node

LABEL = "gateway.networking.k8s.io/gateway-name"
NODES = tuple(
    Node(
        id=f"{kind}~10.4.0.1~it.b~b.svc.cluster.local",
        cluster=kind,
        metadata={"NAMESPACE": "b", "INSTANCE_IPS": "10.4.0.1", "SERVICE_ACCOUNT": "s", **more},
    )
    for kind, more in (
        ("router", {"LABELS": {LABEL: GATEWAY_NAME}}),
        ("sidecar", {"INTERCEPTION_MODE": "NONE", "OUTBOUND_BIND_ADDRESS": "127.0.0.3"}),
    )
)
_meshes = st.tuples(backend_services(), gateway_api()).map(lambda parts: [*parts[0], *parts[1]])
_checks = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)


@given(documents=_meshes)
@settings(max_examples=25, suppress_health_check=_checks)
def test_resources_of_valid_objects_keep_envoys_rules(documents: list[Json]) -> None:
    text = yaml_of(documents)
    note(text)
    context, problems = loaded(text)

    assert problems == ()
    assert {node.id: list(faults(context, node)) for node in NODES} == {
        node.id: [] for node in NODES
    }


@pytest.mark.slow
@given(documents=_meshes)
@settings(max_examples=25, suppress_health_check=_checks)
def test_an_envoy_takes_every_resource_of_valid_objects(
    documents: list[Json], envoy_binary: Path
) -> None:
    text = yaml_of(documents)
    note(text)
    context, problems = loaded(text)

    assert problems == ()
    assert {node.id: envoy_says(envoy_binary, context, node) for node in NODES} == {
        node.id: "" for node in NODES
    }
