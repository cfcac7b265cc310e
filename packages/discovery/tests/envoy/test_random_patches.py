"""Whatever patches there are, Envoy takes what is generated with them, or they are left out."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, note, settings

from drawn_meshes import envoy_says, loaded
from drawn_patches import envoy_filters
from xds_server import Node

MESH = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: a}
spec:
  hosts: [web.a.svc.cluster.local]
  addresses: [10.1.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 9000, name: tcp, protocol: TCP}
  - {number: 9001, name: any}
  endpoints: [{address: 10.0.0.1}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: a}
spec:
  hosts: [outside.example]
  resolution: DNS
  ports: [{number: 443, name: tls, protocol: TLS}, {number: 80, name: http, protocol: HTTP}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: a}
spec:
  selector: {istio: gateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: a}
spec:
  hosts: [web.a.svc.cluster.local, a.example]
  gateways: [gw, mesh]
  http:
  - match: [{uri: {prefix: /old}}]
    redirect: {uri: /new}
  - route: [{destination: {host: web.a.svc.cluster.local, port: {number: 80}}}]
---
"""

RING_HASH = """\
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: ring, namespace: istio-system}
spec:
  configPatches:
  - applyTo: CLUSTER
    patch: {operation: MERGE, value: {lb_policy: RING_HASH}}
"""
"""For each cluster, those among them that balance by themselves, and can't by a ring."""


def node(kind: str, mode: str) -> Node:
    metadata: dict[str, Any] = {
        "INTERCEPTION_MODE": mode,
        "NAMESPACE": "a",
        "LABELS": {"istio": "gateway"},
    }
    name = f"{kind}~10.0.0.1~w.a~a.svc.cluster.local"
    return Node(id=name, cluster="w.a", metadata=metadata)


NODES = [node("sidecar", "REDIRECT"), node("sidecar", "NONE"), node("router", "NONE")]


@pytest.mark.slow
@pytest.mark.parametrize("of", NODES, ids=["redirected", "bound", "gateway"])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
    ),
)
@example(patches=RING_HASH)
@given(patches=envoy_filters())
def test_an_envoy_takes_what_is_generated_with_patches(
    patches: str, of: Node, envoy_binary: Path
) -> None:
    note(patches)
    context, problems = loaded(MESH + patches)
    assert problems == ()
    said = envoy_says(envoy_binary, context, of)
    note(str([(str(each.patch), each.reason) for each in context.failed_patches]))
    assert said == ""
