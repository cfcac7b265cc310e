"""The mesh file, the Istio configuration beside it, and how both are saved."""

from pathlib import Path
from textwrap import dedent

LIFETIME_S = 60
RENEWAL_S = 9.0
"""`LEFT_AT_RENEWAL` of a certificate's life is left then."""
LEFT_AT_RENEWAL = "0.85"
SERVICES = {"caller": "caller", "backend-1": "backend", "backend-2": "backend"} | {
    "store": "store",
    "edge": "edge",
}
WORKLOAD_DISK_KIB = 24 << 10
CA_DISK_KIB = 2 << 10

_MESH = """\
    mesh: {{certificateLifetime: {lifetime}s, drain: 1s}}
    configDir: rules
    workloads:
      - {{name: caller}}
      - {{name: backend, replicas: 2, ports: [{{port: 8080}}], command: ECHO}}
      - {{name: store, ports: [{{port: 9000, protocol: tcp}}], command: ECHO}}
      - {{name: edge, gateway: {{ports: [{port}]}}}}
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: edge, namespace: default}}
spec:
  selector: {{istio: ingressgateway}}
  servers: [{{port: {{number: {port}, name: http, protocol: HTTP}}, hosts: [{host}]}}]
"""
EDITION = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: backend, namespace: default}}
spec:
  hosts: [backend.default.svc.cluster.local, {host}]
  gateways: [mesh, edge]
  http:
  - headers: {{request: {{set: {{x-edition: "{edition}"}}}}}}
    route: [{{destination: {{host: backend.default.svc.cluster.local}}}}]
"""


def mesh_text(port: int) -> str:
    """Return the mesh file."""
    return dedent(_MESH).format(lifetime=LIFETIME_S, port=port)


def put(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
