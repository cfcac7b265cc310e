"""After any chain of edits, proxies that are pushed to have what a fresh start gives them."""

import pytest
from hypothesis import HealthCheck, given, settings

from edited_objects import Edit, chains
from pushed_meshes import Mesh, router, service, sidecar

BESIDE = "---\n".join(
    service(f"beside-{number}", f"10.5.0.{number}", namespace="c") for number in range(60)
)
"""So many that answers of endpoints are edited, and not generated anew."""


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains())
def test_proxies_that_are_pushed_to_have_what_a_fresh_start_has(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Edit]]
) -> None:
    directory = tmp_path_factory.mktemp("mesh")
    mesh = Mesh(directory, beside=BESIDE)
    mesh.connect(
        sidecar("a", address="10.4.0.1"),
        sidecar("a", address="10.4.0.2", labels={"app": "web"}),
        sidecar("b", address="10.4.0.3", mode="NONE"),
        router("a", labels={"istio": "ingressgateway"}),
    )
    for step in steps:
        changes = {
            name: text
            for name, text in step
            if text is not None or (directory / f"{name}.yaml").exists()
        }
        mesh.change(**changes)  # compares what each proxy has with a fresh start
