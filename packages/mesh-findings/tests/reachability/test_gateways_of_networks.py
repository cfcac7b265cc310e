"""Services that say they are the gateway of a network, and are none."""

from dataclasses import replace

from mesh_findings import review
from network_objects import gateway_service, model


def test_in_a_strict_mesh_a_label_outside_the_root_namespace_is_reported() -> None:
    foreign = replace(gateway_service("192.0.2.66"), namespace="evil")

    strict = model(gateway_service("192.0.2.1"), foreign, strict_namespaces=True)

    (problem,) = (each for each in review(strict).problems if "metadata" in each.field)
    assert "name it in MeshNetworks" in problem.message
