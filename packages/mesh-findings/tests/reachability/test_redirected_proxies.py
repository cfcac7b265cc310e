"""Redirected proxies reach more: there, connections are distinguished by more than their port."""

from collections.abc import Callable

from documents import entry
from mesh_model import MeshModel
from unreachable import unreachable


def static(host: str, ports: str) -> str:
    return f"hosts: [{host}], {ports}, resolution: STATIC"


def test_a_mesh_of_redirected_proxies_reaches_what_destination_and_sni_distinguish(
    model_of: Callable[..., MeshModel],
) -> None:
    def port(number: int, name: str) -> str:
        return f"ports: [{{number: {number}, name: {name}, protocol: {name.partition('-')[0]}}}]"

    documents = (
        entry("none", f"hosts: ['*.x'], {port(443, 'tls')}, resolution: NONE"),
        entry("other", static("y.z", port(443, "tls"))),
        entry("web", static("w.z", port(90, "http"))),
        entry("tcp", static("t.z", port(90, "tcp"))),
        entry("last", static("u.z", port(90, "tcp-b"))),
    )
    mesh = (
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
        "spec: {defaultConfig: {interceptionMode: REDIRECT}}\n"
    )

    bound = unreachable(model_of(*documents))
    redirected = [str(each) for each in unreachable(model_of(*documents, mesh))]

    assert len(bound) > len(redirected)
    (message,) = redirected
    assert "port 90 belongs to ServiceEntry default/last" in message
