"""What is refused in a DestinationRule, with its place, and what is accepted with a warning."""

from typing import Any

import pytest
import yaml

from istio_config.kinds.destination_rule._kind import DESTINATION_RULE
from istio_config.kinds.metadata import Metadata
from mesh_configfile import field_name


def read(spec: object) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the mistakes and the warnings, by the names of their fields."""
    body = DESTINATION_RULE.read(
        spec,  # type: ignore[arg-type]
        (),
        Metadata(name="rule", namespace="shop"),
    )
    return (
        [(field_name(path), text) for path, text in body.mistakes],
        [(field_name(path), text) for path, text, _ in body.warnings],
    )


def policy(text: str) -> dict[str, Any]:
    return {"host": "s.b.svc.cluster.local", "trafficPolicy": yaml.safe_load(text)}


GOOD = """
host: reviews
exportTo: [.]
workloadSelector: {matchLabels: {app: web}}
trafficPolicy:
  loadBalancer:
    consistentHash:
      httpCookie: {name: user, path: /, ttl: 0s, attributes: [{name: SameSite, value: Strict}]}
      maglev: {tableSize: 65537}
    localityLbSetting:
      enabled: true
      distribute:
      - from: r1/z1/*
        to: {"r1/z1/*": 70, "r1/z2/*": 30}
      - from: r2
        to: {r1: 20, "r2/*": 80}
  connectionPool:
    tcp:
      maxConnections: 10
      connectTimeout: 250ms
      tcpKeepalive: {probes: 3, time: 7200s, interval: 75s}
      maxConnectionDuration: 1h
      idleTimeout: 0s
    http:
      http1MaxPendingRequests: 1
      http2MaxRequests: 100
      maxRequestsPerConnection: 1
      maxRetries: 2
      idleTimeout: 5s
      h2UpgradePolicy: UPGRADE
      maxConcurrentStreams: 10
      http2KeepAlive: {interval: 10s, timeout: 1s}
  outlierDetection:
    splitExternalLocalOriginErrors: true
    consecutiveLocalOriginFailures: 2
    consecutiveGatewayErrors: 5
    consecutive5xxErrors: 7
    interval: 5m
    baseEjectionTime: 15m
    maxEjectionPercent: 50
    minHealthPercent: 20
    outlierDetectionHttpErrorCodes: [429, 500]
  tls:
    mode: MUTUAL
    clientCertificate: /etc/cert.pem
    privateKey: /etc/key.pem
    caCertificates: /etc/ca.pem
    caCrl: /etc/crl.pem
    subjectAltNames: [reviews.example]
    sni: reviews.example
  portLevelSettings:
  - port: {number: 80}
    loadBalancer:
      simple: ROUND_ROBIN
      warmup: {duration: 30s, minimumPercent: 12.5, aggression: 1.5}
      localityLbSetting: {failover: [{from: r1, to: r2}]}
    outlierDetection: {consecutive5xxErrors: 1}
  - port: {number: 443}
    tls: {mode: SIMPLE, insecureSkipVerify: true, sni: x.example}
  proxyProtocol: {version: V2}
  retryBudget: {percent: 20.5, minRetryConcurrency: 3}
subsets:
- name: v1
  labels: {version: v1}
- name: v2
  trafficPolicy: {tunnel: {protocol: POST, targetHost: www.example.com, targetPort: 443}}
"""


def test_a_rule_with_every_field_is_read_without_a_mistake_or_a_warning() -> None:
    assert read(yaml.safe_load(GOOD)) == ([], [])


MISTAKES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, [("", "the field host is missing")]),
    ({"host": "a b"}, [("host", '"a b" is not a host name')]),
    ({"host": "a", "exportTo": ["*", "x"]}, [("exportTo[0]", '"*" must stand alone')]),
    (
        {"host": "a", "exportTo": ["*"], "workloadSelector": {"matchLabels": {"a": "b"}}},
        [("exportTo", "for its own namespace alone")],
    ),
    (
        {"host": "a", "subsets": [{"name": "v1"}, {"name": "v1"}, {"name": "V 2"}]},
        [
            ("subsets[1].name", 'the subset "v1" is given twice'),
            ("subsets[2].name", '"V 2" is not a name'),
        ],
    ),
    (
        {"host": "a", "subsets": [{"name": "v1", "labels": {"a b": "c"}}]},
        [("subsets[0].labels.a b", "is not the key of a label")],
    ),
    (policy("{}"), [("trafficPolicy", "is empty")]),
    (policy("connectionPool: {}"), [("trafficPolicy.connectionPool", "is empty")]),
    (
        policy("portLevelSettings: [{port: {number: 80}}, {tls: {mode: DISABLE}}]"),
        [
            ("trafficPolicy.portLevelSettings[0]", "has nothing but a port"),
            ("trafficPolicy.portLevelSettings[1]", "the port is missing"),
        ],
    ),
    (
        policy("connectionPool: {tcp: {maxConnections: -1, connectTimeout: 10us}}"),
        [("trafficPolicy.connectionPool.tcp.maxConnections", "expected a number from 0")],
    ),
    (
        policy(
            "connectionPool: {tcp: {connectTimeout: 10us, tcpKeepalive: {time: 1500ms}}, "
            "http: {idleTimeout: 1500us}}"
        ),
        [
            ("trafficPolicy.connectionPool.tcp.connectTimeout", "at least 1ms"),
            ("trafficPolicy.connectionPool.tcp.tcpKeepalive.time", "whole seconds"),
            ("trafficPolicy.connectionPool.http.idleTimeout", "whole milliseconds"),
        ],
    ),
    (
        policy("connectionPool: {http: {useClientProtocol: true, h2UpgradePolicy: UPGRADE}}"),
        [("trafficPolicy.connectionPool.http.useClientProtocol", "can't stand beside")],
    ),
    (
        policy("connectionPool: {http: {http2KeepAlive: {interval: 1s}}}"),
        [("trafficPolicy.connectionPool.http.http2KeepAlive", "the field timeout is missing")],
    ),
    (
        policy("outlierDetection: {consecutiveLocalOriginFailures: 1, interval: 0s}"),
        [
            ("trafficPolicy.outlierDetection.interval", "at least 1ms"),
            (
                "trafficPolicy.outlierDetection.consecutiveLocalOriginFailures",
                "needs splitExternalLocalOriginErrors",
            ),
        ],
    ),
    (
        policy("outlierDetection: {maxEjectionPercent: 101}"),
        [("trafficPolicy.outlierDetection.maxEjectionPercent", "from 0 to 100")],
    ),
    (
        policy("outlierDetection: {outlierDetectionHttpErrorCodes: [600]}"),
        [("trafficPolicy.outlierDetection.outlierDetectionHttpErrorCodes[0]", "from 100 to 599")],
    ),
    (
        policy("loadBalancer: {simple: RANDOM, consistentHash: {useSourceIp: true}}"),
        [("trafficPolicy.loadBalancer.simple", "can't stand beside consistentHash")],
    ),
    (
        policy("loadBalancer: {consistentHash: {useSourceIp: true, httpHeaderName: x}}"),
        [("trafficPolicy.loadBalancer.consistentHash.useSourceIp", "beside httpHeaderName")],
    ),
    (
        policy(
            "loadBalancer: {consistentHash: {httpCookie: {attributes: [{name: a}, {name: a}, {}]}}}"
        ),
        [
            ("trafficPolicy.loadBalancer.consistentHash.httpCookie", "the field name is missing"),
            (
                "trafficPolicy.loadBalancer.consistentHash.httpCookie.attributes[1].name",
                "given twice",
            ),
            (
                "trafficPolicy.loadBalancer.consistentHash.httpCookie.attributes[2].name",
                "must not be empty",
            ),
        ],
    ),
    (
        policy(
            "loadBalancer: {consistentHash: {useSourceIp: true, minimumRingSize: 9, maglev: {}}}"
        ),
        [("trafficPolicy.loadBalancer.consistentHash.minimumRingSize", "beside maglev")],
    ),
    *(
        (
            policy(
                "loadBalancer: {consistentHash: {useSourceIp: true, "
                f"maglev: {{tableSize: {n}}}}}}}"
            ),
            [("trafficPolicy.loadBalancer.consistentHash.maglev.tableSize", "must be a prime")],
        )
        for n in (0, 1, 65536, 5_000_011)
    ),
    (
        policy(
            "loadBalancer: {consistentHash: {useSourceIp: true, "
            "ringHash: {minimumRingSize: 8388609}}}"
        ),
        [("trafficPolicy.loadBalancer.consistentHash.ringHash.minimumRingSize", "largest ring")],
    ),
    (
        policy("loadBalancer: {simple: ROUND_ROBIN, warmup: {minimumPercent: 101, aggression: 0}}"),
        [
            ("trafficPolicy.loadBalancer.warmup", "the field duration is missing"),
            ("trafficPolicy.loadBalancer.warmup.minimumPercent", "from 0 to 100"),
            ("trafficPolicy.loadBalancer.warmup.aggression", "at least 1"),
        ],
    ),
    (
        policy(
            "loadBalancer: {localityLbSetting: {distribute: [{from: r1, to: {r1: 60, r2: 50}}, "
            "{from: r1/z1, to: {'r*': 100}}], failover: [{from: r1, to: r1}, "
            "{from: r2/z, to: ''}]}}"
        ),
        [
            ("trafficPolicy.loadBalancer.localityLbSetting.distribute", "beside failover"),
            ("trafficPolicy.loadBalancer.localityLbSetting.distribute[1].from", "overlaps"),
            ("trafficPolicy.loadBalancer.localityLbSetting.distribute[0].to", "are 110 together"),
            ("trafficPolicy.loadBalancer.localityLbSetting.distribute[1].to.r*", "a whole part"),
            ("trafficPolicy.loadBalancer.localityLbSetting.failover[0].to", "from itself"),
            ("trafficPolicy.loadBalancer.localityLbSetting.failover[1].from", "a region alone"),
            ("trafficPolicy.loadBalancer.localityLbSetting.failover[1].to", "is missing"),
        ],
    ),
    (
        policy(
            "{outlierDetection: {}, loadBalancer: {localityLbSetting: "
            "{failover: [{from: a, to: b}]"
            ", failoverPriority: [topology.kubernetes.io/region]}}}"
        ),
        [
            (
                "trafficPolicy.loadBalancer.localityLbSetting.failoverPriority[0]",
                "can't stand beside failover",
            )
        ],
    ),
    (
        policy(
            "loadBalancer: {zoneAwareLbSetting: {failoverPriority: [topology.istio.io/subzone]}}"
        ),
        [
            (
                "trafficPolicy.loadBalancer.zoneAwareLbSetting.failoverPriority[0]",
                "can't stand beside zoneAwareLbSetting",
            )
        ],
    ),
    (
        policy("loadBalancer: {simple: RANDOM, backendUtilization: {}}"),
        [("trafficPolicy.loadBalancer.backendUtilization", "can't stand beside simple")],
    ),
    (
        policy("tls: {mode: MUTUAL}"),
        [
            ("trafficPolicy.tls", "needs the field clientCertificate"),
            ("trafficPolicy.tls", "needs the field privateKey"),
        ],
    ),
    (
        policy("tls: {mode: SIMPLE, credentialName: a, caCertificates: /ca}"),
        [("trafficPolicy.tls.caCertificates", "beside credentialName")],
    ),
    (
        policy("tls: {mode: SIMPLE, insecureSkipVerify: true, subjectAltNames: [a]}"),
        [("trafficPolicy.tls.subjectAltNames", "beside insecureSkipVerify")],
    ),
    (
        policy("tunnel: {protocol: GET, targetHost: x}"),
        [
            ("trafficPolicy.tunnel.protocol", "expected CONNECT or POST"),
            ("trafficPolicy.tunnel.targetHost", "is neither a full host name"),
            ("trafficPolicy.tunnel", "the field targetPort is missing"),
        ],
    ),
    (
        policy("{tunnel: {targetHost: x.example, targetPort: 1}, proxyProtocol: {version: V1}}"),
        [("trafficPolicy.proxyProtocol", "can't stand beside tunnel")],
    ),
    (
        policy("retryBudget: {percent: 101, budgetInterval: 0s}"),
        [
            ("trafficPolicy.retryBudget.percent", "from 0 to 100"),
            ("trafficPolicy.retryBudget.budgetInterval", "at least 1ms"),
        ],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), MISTAKES)
def test_what_envoy_or_the_user_could_not_mean_is_refused_with_its_place(
    spec: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    mistakes, _ = read(spec)
    assert [field for field, _ in mistakes] == [field for field, _ in expected]
    for (_, text), (_, part) in zip(mistakes, expected, strict=True):
        assert part in text


WARNINGS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    (
        {"host": "a", "workloadSelector": {}},
        [("workloadSelector", "for all workloads of the namespace")],
    ),
    (
        policy("loadBalancer: {simple: LEAST_CONN}"),
        [("trafficPolicy.loadBalancer.simple", "LEAST_REQUEST")],
    ),
    (
        policy("loadBalancer: {consistentHash: {minimumRingSize: 9}}"),
        [
            ("trafficPolicy.loadBalancer.consistentHash.minimumRingSize", "deprecated"),
            ("trafficPolicy.loadBalancer.consistentHash", "at random"),
        ],
    ),
    (
        policy("loadBalancer: {simple: RANDOM, warmupDurationSecs: 3s}"),
        [
            ("trafficPolicy.loadBalancer.warmupDurationSecs", "deprecated"),
            ("trafficPolicy.loadBalancer.warmupDurationSecs", "ROUND_ROBIN and LEAST_REQUEST"),
        ],
    ),
    (
        policy("loadBalancer: {localityLbSetting: {failoverPriority: [a]}}"),
        [("trafficPolicy.loadBalancer.localityLbSetting", "without outlierDetection")],
    ),
    (
        policy("loadBalancer: {zoneAwareLbSetting: {minClusterSize: 3}}"),
        [("trafficPolicy.loadBalancer.zoneAwareLbSetting", "regions come before others")],
    ),
    (
        policy("loadBalancer: {backendUtilization: {weightUpdatePeriod: 2s}}"),
        [("trafficPolicy.loadBalancer.backendUtilization", "is not supported")],
    ),
    (
        policy("retryBudget: {budgetInterval: 1s}"),
        [("trafficPolicy.retryBudget.budgetInterval", "has no effect")],
    ),
    (
        policy("outlierDetection: {consecutiveErrors: 3}"),
        [("trafficPolicy.outlierDetection.consecutiveErrors", "deprecated")],
    ),
    (
        policy("portLevelSettings: [{port: {number: 80}, tls: {}}, {port: {number: 80}, tls: {}}]"),
        [("trafficPolicy.portLevelSettings[1]", "the first one counts")],
    ),
    (
        policy("tls: {mode: ISTIO_MUTUAL, privateKey: /k}"),
        [("trafficPolicy.tls.privateKey", "the mesh's certificates")],
    ),
    (policy("tls: {mode: DISABLE, sni: a}"), [("trafficPolicy.tls.sni", "plaintext")]),
    (
        policy("tls: {mode: SIMPLE, privateKey: /k}"),
        [("trafficPolicy.tls.privateKey", "certificate of the client's")],
    ),
    (
        policy("tls: {mode: SIMPLE, credentialName: a}"),
        [("trafficPolicy.tls.credentialName", "is for gateways")],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), WARNINGS)
def test_what_is_probably_not_meant_is_accepted_and_reported(
    spec: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    mistakes, warnings = read(spec)
    assert not mistakes
    assert [field for field, _ in warnings] == [field for field, _ in expected]
    for (_, text), (_, part) in zip(warnings, expected, strict=True):
        assert part in text
