"""The headless service h.b of a StatefulSet, with its pods, as a cluster has them."""

from collections.abc import Iterable
from typing import NamedTuple

HOST = "h.b.svc.cluster.local"
TCP, HTTP, UNDECLARED, TLS = 7000, 8080, 9090, 8443
_PORTS = ((TCP, "tcp"), (HTTP, "http"), (UNDECLARED, "data"), (TLS, "tls"))


class Pod(NamedTuple):
    """A pod; without a sidecar it takes no mutual TLS."""

    name: str
    address: str
    has_sidecar: bool = True
    labels: str = ""


def headless_service(pods: Iterable[Pod]) -> str:
    """Return the documents of the service, of its pods and of their addresses."""
    pods = tuple(pods)
    ports = ", ".join(f"{{name: {name}, port: {number}}}" for number, name in _PORTS)
    described = (
        _POD.format(
            name=each.name,
            address=each.address,
            labels=(", security.istio.io/tlsMode: istio" if each.has_sidecar else "")
            + (f", {each.labels}" if each.labels else ""),
        )
        for each in pods
    )
    listed = "".join(_ENDPOINT.format(name=each.name, address=each.address) for each in pods)
    return "---\n".join(
        (_SERVICE.format(ports=ports), *described, _SLICE.format(ports=ports) + listed)
    )


_SERVICE = """\
apiVersion: v1
kind: Service
metadata: {{name: h, namespace: b}}
spec:
  clusterIP: None
  selector: {{app: h}}
  ports: [{ports}]
"""
_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: b
  labels: {{app: h{labels}}}
spec:
  {{serviceAccountName: h, hostname: {name}, subdomain: h, containers: [{{name: a, image: a}}]}}
status:
  phase: Running
  podIP: {address}
  podIPs: [{{ip: {address}}}]
  conditions: [{{type: Ready, status: "True"}}]
"""
_SLICE = """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: h-1, namespace: b, labels: {{kubernetes.io/service-name: h}}}}
addressType: IPv4
ports: [{ports}]
endpoints:
"""
_ENDPOINT = """\
- addresses: [{address}]
  hostname: {name}
  conditions: {{ready: true}}
  targetRef: {{kind: Pod, name: {name}, namespace: b}}
"""
