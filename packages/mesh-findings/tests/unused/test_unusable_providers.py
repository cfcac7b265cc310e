"""CUSTOM policies whose provider can't be asked are reported, with what becomes of requests."""

from collections.abc import Callable

import pytest

from documents import entry
from mesh_model import MeshModel
from unreachable import unreachable

MESH = (
    "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {extensionProviders: ["
    "{name: http, envoyExtAuthzHttp: {service: authz.b.svc.cluster.local, port: 8000}}, "
    "{name: grpc, envoyExtAuthzGrpc: {service: authz.b.svc.cluster.local, port: 8000}}, "
    "{name: gone, envoyExtAuthzHttp: {service: gone.b.svc.cluster.local, port: 8000}}, "
    "{name: log, envoyFileAccessLog: {path: /dev/stdout}}]}\n"
)
FIELDS = (
    "hosts: [authz.b.svc.cluster.local], resolution: STATIC, location: MESH_INTERNAL, "
    "endpoints: [{address: 10.0.0.1}], ports: [{number: 8000, name: http, protocol: HTTP}]"
)
SERVICE = entry("authz", FIELDS, namespace="b")


def policy(provider: str, namespace: str = "a") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"
        f"metadata: {{name: check, namespace: {namespace}}}\n"
        f"spec: {{action: CUSTOM, provider: {{name: {provider}}}, rules: [{{}}]}}\n"
    )


TOLD: dict[str, tuple[list[str], str]] = {
    "one that can be asked": ([SERVICE, policy("http")], ""),
    "an unknown one": (
        [SERVICE, policy("other")],
        "the mesh config has no extension provider other; there are gone, grpc, http",
    ),
    "one that does not decide": (
        [SERVICE, policy("log")],
        "the extension provider log does not decide on requests",
    ),
    "one without its service": (
        [SERVICE, policy("gone")],
        (
            "the extension provider gone is at gone.b.svc.cluster.local, port 8000, and "
            "there is no such service"
        ),
    ),
    "one whose service is not exported": (
        [entry("authz", f"{FIELDS}, exportTo: ['.']", namespace="b"), policy("http")],
        (
            "the extension provider http is the service authz.b.svc.cluster.local, which is not "
            "exported to namespace a"
        ),
    ),
    "one that is asked by gRPC and speaks HTTP/1": (
        [SERVICE, policy("grpc")],
        (
            "the extension provider grpc is asked by gRPC, and its port 8000 declares the protocol "
            "HTTP, not GRPC"
        ),
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_provider_that_cannot_be_asked_is_reported(
    case: str, model_of: Callable[..., MeshModel]
) -> None:
    documents, wanted = TOLD[case]
    found = [each for each in unreachable(model_of(MESH, *documents)) if "provider" in each.field]
    assert [(each.field, each.message) for each in found] == (
        [("spec.provider.name", f"{wanted}: what the rules match is denied")] if wanted else []
    )
