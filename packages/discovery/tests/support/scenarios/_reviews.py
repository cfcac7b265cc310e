"""The usual setting: a client in namespace a, and a service with two versions in namespace b."""

from dataclasses import dataclass

from scenarios._echo import Echo
from scenarios._envoys import MeshEnvoy

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b, creationTimestamp: '2020-01-01T00:00:00Z'}}
spec:
  hosts: [s.b.svc.cluster.local]
  addresses: [10.9.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP, targetPort: {port}}}
  endpoints:
  - {{address: {v1}, labels: {{app: s, version: v1}}}}
  - {{address: {v2}, labels: {{app: s, version: v2}}}}
"""


@dataclass(frozen=True)
class Reviews:
    """The client C (namespace a, service account c) and the versions of s.b."""

    client: MeshEnvoy
    v1: Echo
    v2: Echo
