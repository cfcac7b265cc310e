"""Each setting of a DestinationRule, and the fields of Envoy's cluster that it makes."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from destination_rules import policy, rule
from documents import entry
from envoy_config.context._context import PushContext
from mesh_model import MeshModel
from proxies import as_json, proxy

Build = Callable[..., MeshModel]

HOST = "s.b.svc.cluster.local"
SERVICE = entry(
    "s",
    f"hosts: [{HOST}], location: MESH_INTERNAL, resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: grpc, protocol: GRPC}], "
    "endpoints: [{address: 10.0.0.1, serviceAccount: s, labels: {version: v1}}]",
    namespace="b",
)
OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def cluster(model: MeshModel, port: int = 80, subset: str = "") -> dict[str, Any]:
    """Return the cluster of the service's port as JSON, with its HTTP options as `http`."""
    resources = {each["name"]: each for each in as_json(PushContext(model).clusters(proxy()))}
    found: dict[str, Any] = resources[f"outbound|{port}|{subset}|{HOST}"]
    options = found.pop("typed_extension_protocol_options", {})
    found["http"] = {k: v for k, v in options.get(OPTIONS, {}).items() if k != "@type"}
    found["limits"] = found["circuit_breakers"]["thresholds"][0]
    return found


def part(of: Any, like: Any) -> Any:
    """Return the fields of a message that another has, too; missing ones are None."""
    if not isinstance(like, dict):
        return of
    return {key: part((of or {}).get(key), value) for key, value in like.items()}


CASES = """
- policy: "{loadBalancer: {simple: UNSPECIFIED}}"
  fields: {lb_policy: LEAST_REQUEST, http: {}, outlier_detection: null}
- policy: "{loadBalancer: {simple: RANDOM}}"
  fields: {lb_policy: RANDOM}
- policy: "{loadBalancer: {simple: LEAST_CONN}}"
  fields: {lb_policy: LEAST_REQUEST}
- policy: "{loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 30s, minimumPercent: 20}}}"
  fields:
    # The default of Envoy's enum, which is round robin.
    lb_policy: null
    round_robin_lb_config:
      slow_start_config: {slow_start_window: 30s, min_weight_percent: {value: 20.0}}
- policy: "{loadBalancer: {warmupDurationSecs: 9s}}"
  fields:
    least_request_lb_config:
      slow_start_config: {slow_start_window: 9s, min_weight_percent: {value: 10.0}}
- policy: "{loadBalancer: {consistentHash: {httpHeaderName: x}}}"
  fields: {lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: '1024'}}
- policy: "{loadBalancer: {consistentHash: {httpHeaderName: x, minimumRingSize: 9}}}"
  fields: {lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: '9'}}
- policy: "{loadBalancer: {consistentHash: {httpHeaderName: x, ringHash: {}}}}"
  fields: {lb_policy: RING_HASH, ring_hash_lb_config: null}
- policy: "{loadBalancer: {consistentHash: {httpHeaderName: x, maglev: {tableSize: 11}}}}"
  fields: {lb_policy: MAGLEV, maglev_lb_config: {table_size: '11'}}
- policy: "{loadBalancer: {localityLbSetting: {distribute: [{from: '*', to: {r1: 100}}]}}}"
  fields: {common_lb_config: {locality_weighted_lb_config: {}}}
- policy: "{connectionPool: {tcp: {maxConnections: 3, connectTimeout: 250ms}}}"
  fields: {limits: {max_connections: 3, max_requests: 4294967295}, connect_timeout: 0.250s}
- policy: >-
    {connectionPool: {http: {http1MaxPendingRequests: 1, http2MaxRequests: 2, maxRetries: 3}}}
  fields: {limits: {max_pending_requests: 1, max_requests: 2, max_retries: 3}, http: {}}
- policy: "{connectionPool: {tcp: {tcpKeepalive: {probes: 3, time: 7s, interval: 2s}}}}"
  fields:
    upstream_connection_options:
      tcp_keepalive: {keepalive_probes: 3, keepalive_time: 7, keepalive_interval: 2}
- policy: "{connectionPool: {tcp: {idleTimeout: 3s, maxConnectionDuration: 1h}}}"
  fields:
    http:
      common_http_protocol_options: {idle_timeout: 3s, max_connection_duration: 3600s}
      explicit_http_config: {http_protocol_options: {}}
- policy: "{connectionPool: {tcp: {idleTimeout: 3s}, http: {idleTimeout: 5s}}}"
  fields: {http: {common_http_protocol_options: {idle_timeout: 5s}}}
- policy: "{connectionPool: {http: {maxRequestsPerConnection: 1}}}"
  fields: {http: {common_http_protocol_options: {max_requests_per_connection: 1}}}
- policy: "{connectionPool: {http: {h2UpgradePolicy: UPGRADE, maxConcurrentStreams: 7}}}"
  fields:
    http: {explicit_http_config: {http2_protocol_options: {max_concurrent_streams: 7}}}
- policy: "{connectionPool: {http: {useClientProtocol: true}}}"
  fields: {http: {use_downstream_protocol_config: {http_protocol_options: {}}}}
- policy: "{connectionPool: {http: {http2KeepAlive: {interval: 9s, timeout: 2s}}}}"
  port: 81
  fields:
    http:
      explicit_http_config:
        http2_protocol_options: {connection_keepalive: {interval: 9s, timeout: 2s}}
- policy: "{retryBudget: {}}"
  fields:
    limits: {retry_budget: {budget_percent: {value: 20.0}, min_retry_concurrency: 3}}
- policy: "{outlierDetection: {}}"
  fields:
    outlier_detection: {enforcing_success_rate: 0, consecutive_5xx: null}
    common_lb_config: {healthy_panic_threshold: {}}
- policy: "{outlierDetection: {consecutive5xxErrors: 0, consecutiveGatewayErrors: 4}}"
  fields:
    outlier_detection:
      enforcing_consecutive_5xx: 0
      consecutive_gateway_failure: 4
      enforcing_consecutive_gateway_failure: 100
- policy: >-
    {outlierDetection: {interval: 1s, baseEjectionTime: 10m, maxEjectionPercent: 7,
    minHealthPercent: 20}}
  fields:
    outlier_detection:
      interval: 1s
      base_ejection_time: 600s
      max_ejection_time: 600s
      max_ejection_percent: 7
    common_lb_config: {healthy_panic_threshold: {value: 20.0}}
- policy: >-
    {outlierDetection: {splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 2}}
  fields:
    outlier_detection:
      split_external_local_origin_errors: true
      consecutive_local_origin_failure: 2
      enforcing_consecutive_local_origin_failure: 100
      enforcing_local_origin_success_rate: 0
"""


@pytest.mark.parametrize("case", yaml.safe_load(CASES), ids=lambda case: case["policy"])
def test_a_setting_makes_these_fields_of_the_cluster(model_of: Build, case: dict[str, Any]) -> None:
    model = model_of(SERVICE, policy(case["policy"]))

    fields = cluster(model, case.get("port", 80))

    assert part(fields, case["fields"]) == case["fields"]


def test_a_subsets_tls_decides_for_the_subset(model_of: Build) -> None:
    model = model_of(
        SERVICE,
        rule(
            "trafficPolicy: {tls: {mode: DISABLE}}\n"
            "subsets:\n"
            "- {name: v1, labels: {version: v1}}\n"
            "- {name: own, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}\n"
        ),
    )

    for subset in ("", "v1"):
        fields = cluster(model, subset=subset)
        assert "transport_socket" not in fields
        assert "transport_socket_matches" not in fields
    context = cluster(model, subset="own")["transport_socket"]["typed_config"]
    assert context["sni"] == f"outbound_.80_.own_.{HOST}"
    metadata = cluster(model, subset="own")["metadata"]["filter_metadata"]["istio"]
    assert metadata["subset"] == "own"
    assert metadata["config"] == "/apis/networking.istio.io/v1/namespaces/b/destination-rule/s"


def test_settings_of_the_mesh_hold_where_no_rule_has_any(model_of: Build) -> None:
    mesh = (
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec:\n"
        "  connectTimeout: 3s\n"
        "  h2UpgradePolicy: UPGRADE\n"
        "  tcpKeepalive: {probes: 9, time: 8s}\n"
        "  outboundClusterStatName: '%SERVICE%_%SERVICE_PORT_NAME%_%SUBSET_NAME%'\n"
        "  defaultTrafficPolicy: {connectionPool: {http: {maxRetries: 5}}}\n"
    )
    own = policy("{connectionPool: {tcp: {tcpKeepalive: {probes: 2}}}}")

    fields = cluster(model_of(SERVICE, mesh))
    assert fields["connect_timeout"] == "3s"
    assert fields["limits"]["max_retries"] == 5
    assert "http2_protocol_options" in fields["http"]["explicit_http_config"]
    assert fields["alt_stat_name"] == "s.b_http_;"
    keepalive = fields["upstream_connection_options"]["tcp_keepalive"]
    assert keepalive == {"keepalive_probes": 9, "keepalive_time": 8}

    fields = cluster(model_of(SERVICE, mesh, own))
    assert fields["limits"]["max_retries"] == 4294967295
    keepalive = fields["upstream_connection_options"]["tcp_keepalive"]
    assert keepalive == {"keepalive_probes": 2, "keepalive_time": 8}
