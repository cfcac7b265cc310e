"""Routers that pass on the mesh's TLS have listeners by the subsets of services."""

from pathlib import Path

from documents import document
from pushed_meshes import Mesh, router, service

PASSES_ON = document(
    "Gateway",
    "g",
    "{selector: {istio: ingressgateway}, servers: [{port: {number: 15443, name: tls, protocol: TLS}"
    ', hosts: ["*.local"], tls: {mode: AUTO_PASSTHROUGH}}]}',
)


def rule(*subsets: str) -> str:
    named = ", ".join(f"{{name: {each}, labels: {{version: {each}}}}}" for each in subsets)
    return document(
        "DestinationRule", "r", f"{{host: web.a.svc.cluster.local, subsets: [{named}]}}"
    )


def test_a_subset_that_comes_or_goes_is_pushed_to_them(tmp_path: Path) -> None:
    """The harness compares what routers have with what a new control plane would give them."""
    mesh = Mesh(tmp_path, web=service("web", "10.1.0.1"), gateway=PASSES_ON)
    mesh.connect(router("a", labels={"istio": "ingressgateway"}))
    mesh.change(rule=rule("v1"))
    mesh.change(rule=rule("v1", "v2"))
    mesh.change(rule=rule("v2"))
    mesh.change(rule=None)
