"""The policy of a cluster, by port and subset."""

from typing import Any

import msgspec
import pytest
import yaml

from envoy_config.plan._traffic_policy import NO_POLICY, effective_policy, route_hash, tcp_policy
from istio_config.kinds.destination_rule import DestinationRuleSpec
from mesh_configfile import Duration
from mesh_configfile.shapes import decode, differences
from mesh_model import Rule

RULE = """
host: s.b.svc.cluster.local
trafficPolicy:
  loadBalancer: {consistentHash: {httpHeaderName: top}}
  connectionPool: {tcp: {maxConnections: 1, idleTimeout: 5s}}
  outlierDetection: {consecutive5xxErrors: 1}
  tls: {mode: DISABLE}
  tunnel: {targetHost: top.example, targetPort: 1}
  retryBudget: {percent: 1}
  portLevelSettings:
  - port: {number: 81}
    connectionPool: {tcp: {maxConnections: 81, maxConnectionDuration: 9s}}
  - port: {number: 82}
    loadBalancer: {consistentHash: {useSourceIp: true}}
subsets:
- name: plain
- name: balanced
  trafficPolicy:
    loadBalancer: {simple: RANDOM}
- name: by-port
  trafficPolicy:
    tls: {mode: SIMPLE}
    tunnel: {targetHost: own.example, targetPort: 1}
    portLevelSettings:
    - port: {number: 80}
      outlierDetection: {consecutive5xxErrors: 80}
"""


@pytest.fixture(name="rule")
def _rule() -> Rule:
    document = yaml.safe_load(RULE)
    assert not list(differences(document, DestinationRuleSpec))
    spec = decode(document, DestinationRuleSpec)
    return Rule(namespace="b", names=("rule",), host=spec.host, spec=spec, export_to=frozenset())


def shown(value: Any) -> Any:
    """Return a section as it is written, without what is unset."""
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {each.encode_name: getattr(value, each.name) for each in msgspec.structs.fields(value)}
    return {name: shown(inner) for name, inner in fields.items() if inner}


@pytest.mark.parametrize(
    ("port", "subset", "expected"),
    [
        (80, "", ("top", 1, 1, "DISABLE", "top.example")),
        (80, "unknown", ("top", 1, 1, "DISABLE", "top.example")),
        (80, "plain", ("top", 1, 1, "DISABLE", "top.example")),
        # A port's entry replaces all four sections, and loses the tunnel.
        (81, "", (None, 81, None, None, None)),
        # A subset replaces what it has itself.
        (80, "balanced", ("RANDOM", 1, 1, "DISABLE", "top.example")),
        (81, "balanced", ("RANDOM", 81, None, None, None)),
        (80, "by-port", (None, None, 80, None, "own.example")),
        (83, "by-port", ("top", 1, 1, "SIMPLE", "own.example")),
    ],
)
def test_each_section_comes_from_the_subset_or_the_port_or_the_rule(
    rule: Rule, port: int, subset: str, expected: tuple[object, ...]
) -> None:
    policy = effective_policy(rule, port, subset, None)
    balancer, outlier = policy.load_balancer, policy.outlier_detection
    hashing = policy.consistent_hash
    found = (
        hashing.http_header_name if hashing is not None else balancer and balancer.simple,
        policy.connection_pool and policy.tcp.max_connections,
        outlier and outlier.consecutive_5xx_errors,
        policy.tls and policy.tls.mode,
        policy.tunnel and policy.tunnel.target_host,
    )
    assert found == expected
    assert policy.retry_budget is not None


def test_without_a_rule_nothing_is_set() -> None:
    assert effective_policy(None, 80, "", None) == NO_POLICY
    assert tcp_policy(None, 80, "v1", None) == tcp_policy(None, 81, "", None)
    assert route_hash(None, 80) is None


def test_a_tcp_proxy_has_the_tunnel_of_its_own_subset_only(rule: Rule) -> None:
    assert shown(tcp_policy(rule, 80, "", None).tunnel) == {
        "targetHost": "top.example",
        "targetPort": 1,
    }
    assert tcp_policy(rule, 80, "plain", None).tunnel is None
    assert shown(tcp_policy(rule, 80, "by-port", None).tunnel)["targetHost"] == "own.example"
    assert tcp_policy(rule, 80, "", None).idle_timeout == Duration(5)
    assert tcp_policy(rule, 81, "", None).max_connection_duration == Duration(9)
    assert not tcp_policy(rule, 80, "", None).hashes_source_ip
    assert tcp_policy(rule, 82, "", None).hashes_source_ip


@pytest.mark.parametrize(
    ("port", "subset", "expected"),
    [
        (80, "", {"httpHeaderName": "top"}),
        (82, "", {"useSourceIp": True}),
        # Settings of ports count only where the destination names its port.
        (None, "", {"httpHeaderName": "top"}),
        (81, "", None),
        (80, "plain", {"httpHeaderName": "top"}),
        (80, "balanced", None),
        (80, "by-port", None),
        (82, "by-port", {"useSourceIp": True}),
    ],
)
def test_a_route_hashes_as_the_cluster_that_it_leads_to(
    rule: Rule, port: int | None, subset: str, expected: object
) -> None:
    assert shown(route_hash(rule, port, subset)) == expected
