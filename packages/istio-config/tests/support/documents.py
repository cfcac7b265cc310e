"""Istio YAML as users write it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CLUSTER_DUMP = Path(__file__).with_name("cluster.yaml")
"""The objects of a small cluster, as `kubectl get` writes them."""

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: default}}
spec:
  hosts: [{name}.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: {port}, name: {protocol}, protocol: {protocol}, targetPort: {target}}}
  endpoints:
  - {{address: {address}, serviceAccount: {name}}}
"""

WEB = (
    "hosts: [web.a], resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]"
)
"""The spec of a service with one HTTP port and without endpoints."""


def service(name: str, address: str, port: int, target: int, protocol: str = "http") -> str:
    return SERVICE.format(name=name, address=address, port=port, target=target, protocol=protocol)


def peer_authentication(mode: str, *, namespace: str = "istio-system") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: default, namespace: {namespace}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


def entry(name: str, spec: str, *, namespace: str = "default", created: str = "") -> str:
    """Return a ServiceEntry; spec: its fields in YAML's flow style."""
    stamp = f", creationTimestamp: '{created}'" if created else ""
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}{stamp}}}\nspec: {{{spec}}}\n"
    )


def workload(name: str, spec: str, *, namespace: str = "default") -> str:
    """Return a WorkloadEntry; spec: its fields in YAML's flow style."""
    return (
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )


def document(kind: str, name: str, spec: str, *, namespace: str = "a") -> str:
    """Return an object of Istio's networking; spec: in YAML's flow style, with braces."""
    return (
        f"apiVersion: networking.istio.io/v1\nkind: {kind}\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"
    )


@dataclass(frozen=True)
class Documents:
    """Documents as users write them."""

    service: Callable[..., str] = field(default=service)
    peer_authentication: Callable[..., str] = field(default=peer_authentication)
