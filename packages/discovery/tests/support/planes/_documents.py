"""Istio YAML as users write it."""

from collections.abc import Callable
from dataclasses import dataclass, field

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: default}}
spec:
  hosts: [{name}.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: {port}, name: {protocol}, targetPort: {target}}}
  endpoints:
  - {{address: {address}, serviceAccount: {name}}}
"""


def service(name: str, address: str, port: int, target: int, protocol: str = "http") -> str:
    return SERVICE.format(name=name, address=address, port=port, target=target, protocol=protocol)


def peer_authentication(mode: str, *, namespace: str = "istio-system") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: default, namespace: {namespace}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


@dataclass(frozen=True)
class Documents:
    """Documents as users write them."""

    service: Callable[..., str] = field(default=service)
    peer_authentication: Callable[..., str] = field(default=peer_authentication)
