"""Envoy takes the clusters of every setting of DestinationRules, for every sort of service."""

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from drawn_meshes import envoy_says, faults
from envoy_config import PushContext
from mesh_model import MeshModel
from xds_server import Node

SERVICES = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  location: {location}
  resolution: {resolution}
  ports:
  - {{number: 80, name: http, protocol: HTTP, targetPort: 8080}}
  - {{number: 81, name: grpc, protocol: GRPC}}
  - {{number: 82, name: tcp, protocol: TCP}}
  - {{number: 83, name: any}}
  - {{number: 84, name: udp, protocol: UDP}}
  {endpoints}
"""
SORTS = {
    "inside": ("MESH_INTERNAL", "STATIC", "10.0.0.1"),
    "outside": ("MESH_EXTERNAL", "DNS", "a.example"),
    "in-turn": ("MESH_EXTERNAL", "DNS_ROUND_ROBIN", "b.example"),
    "anywhere": ("MESH_EXTERNAL", "NONE", ""),
}

POLICIES = {
    "nothing": "loadBalancer: {simple: UNSPECIFIED}",
    "random": "loadBalancer: {simple: RANDOM}",
    "in-turn": "loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 30s, aggression: 1.5}}",
    "least": "loadBalancer: {simple: LEAST_REQUEST, warmupDurationSecs: 30s}",
    "passthrough": "loadBalancer: {simple: PASSTHROUGH}",
    "ring": "loadBalancer: {consistentHash: {httpHeaderName: x-user}}",
    "ring-size": "loadBalancer: {consistentHash: {useSourceIp: true, minimumRingSize: 8388608}}",
    "any-ring": "loadBalancer: {consistentHash: {useSourceIp: true, ringHash: {}}}",
    "maglev": "loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: 11}}}",
    "shares": (
        "loadBalancer: {localityLbSetting: {distribute: [{from: '*', to: {r1: 70, r2: 30}}]}}"
    ),
    "failover": (
        "{outlierDetection: {}, loadBalancer: {localityLbSetting: "
        "{failover: [{from: r1, to: r2}], failoverPriority: [version]}}}"
    ),
    "zones": "loadBalancer: {zoneAwareLbSetting: {enabled: true, minClusterSize: 3}}",
    "pool": """
    connectionPool:
      tcp:
        maxConnections: 1
        connectTimeout: 250ms
        tcpKeepalive: {probes: 3, time: 7200s, interval: 75s}
        maxConnectionDuration: 1h
        idleTimeout: 3s
      http:
        http1MaxPendingRequests: 1
        http2MaxRequests: 2
        maxRequestsPerConnection: 3
        maxRetries: 4
        idleTimeout: 5s
        maxConcurrentStreams: 6
        http2KeepAlive: {interval: 10s, timeout: 1s}
    retryBudget: {percent: 12.5, minRetryConcurrency: 5}""",
    "no-idle-time": "connectionPool: {tcp: {idleTimeout: 0s}}",
    "upgrade": "connectionPool: {http: {h2UpgradePolicy: UPGRADE}}",
    "as-client": "connectionPool: {http: {useClientProtocol: true}}",
    "outliers": """
    outlierDetection:
      splitExternalLocalOriginErrors: true
      consecutiveLocalOriginFailures: 2
      consecutiveGatewayErrors: 3
      consecutive5xxErrors: 4
      interval: 5m
      baseEjectionTime: 15m
      maxEjectionPercent: 50
      minHealthPercent: 20
      outlierDetectionHttpErrorCodes: [429, 500]""",
    "no-errors": "outlierDetection: {consecutive5xxErrors: 0, consecutiveGatewayErrors: 0}",
    "one-code": "outlierDetection: {outlierDetectionHttpErrorCodes: [503]}",
    "plain": "tls: {mode: DISABLE}",
    "mesh": "tls: {mode: ISTIO_MUTUAL, sni: x.example, subjectAltNames: [spiffe://a/ns/b/sa/c]}",
    "simple": "tls: {mode: SIMPLE}",
    "unchecked": "tls: {mode: SIMPLE, insecureSkipVerify: true, sni: a.example}",
    "checked": (
        "tls: {mode: SIMPLE, caCertificates: /ca.pem, sni: a.example, "
        "subjectAltNames: [a.example, 10.0.0.1, 'spiffe://a/b', a@b.example]}"
    ),
    "mutual": "tls: {mode: MUTUAL, clientCertificate: /c.pem, privateKey: /k.pem}",
    "credential": "tls: {mode: MUTUAL, credentialName: a}",
    "one": "{proxyProtocol: {version: V1}, tls: {mode: SIMPLE}}",
    "two": "proxyProtocol: {version: V2}",
}


NOT_AT_ROUTERS = {"credential"}
"""Envoy crashes on clusters of its bootstrap with secrets over ADS, which is not there yet."""


def rule(name: str, but: Collection[str] = ()) -> str:
    """Make a rule whose subsets have each of the policies, for the service of a name."""
    subsets = "".join(
        f"\n  - name: {key}\n    labels: {{version: v1}}\n    trafficPolicy:{_indented(text)}"
        for key, text in POLICIES.items()
        if key not in but
    )
    return (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"
        f"metadata: {{name: {name}, namespace: b}}\n"
        f"spec:\n  host: {name}\n  subsets:{subsets}\n"
    )


def _indented(text: str) -> str:
    if not text.startswith("{"):
        text = "\n".join(line.removeprefix("    ") for line in text.strip("\n").split("\n"))
        return "\n" + "\n".join(f"      {line}" for line in text.split("\n"))
    return f" {text}"


def documents(but: Collection[str] = ()) -> list[str]:
    found = []
    for name, (location, resolution, address) in SORTS.items():
        endpoints = ""
        if address:
            endpoints = (
                f"endpoints: [{{address: {address}, locality: r1/z1, labels: {{version: v1}}, "
                "serviceAccount: s}]"
            )
        found.append(
            SERVICES.format(
                name=name, location=location, resolution=resolution, endpoints=endpoints
            )
        )
        found.append(rule(name, but))
    return found


@pytest.mark.parametrize(
    ("kind", "mode"), [("sidecar", "NONE"), ("sidecar", "REDIRECT"), ("router", "NONE")]
)
def test_envoy_takes_the_clusters_of_every_setting(
    kind: str, mode: str, model_of: Callable[..., MeshModel], envoy_binary: Path
) -> None:
    but = NOT_AT_ROUTERS if kind == "router" else ()
    context = PushContext(model_of(*documents(but)))
    node = Node(
        id=f"{kind}~10.0.0.9~c.a~a.svc.cluster.local",
        cluster="c",
        metadata={"INTERCEPTION_MODE": mode, "LABELS": {"version": "v1"}},
    )

    assert list(faults(context, node)) == []
    assert envoy_says(envoy_binary, context, node) == ""
