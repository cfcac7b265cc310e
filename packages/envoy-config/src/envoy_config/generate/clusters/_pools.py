"""Connection pools of clusters: limits, timeouts, keepalive, retry budgets."""

from envoy_config.generate._messages import (
    address_pb2,
    circuit_breaker_pb2,
    cluster_pb2,
    duration,
    percent_pb2,
)
from envoy_config.generate.clusters._cluster import number
from envoy_config.plan._traffic_policy import Policy
from istio_config.kinds.destination_rule import TcpKeepalive

_RetryBudget = circuit_breaker_pb2.CircuitBreakers.Thresholds.RetryBudget
_BUDGET_PERCENT, _BUDGET_CONCURRENCY = 20.0, 3
"""Envoy's own, which are Istio's."""


def limit(
    cluster: cluster_pb2.Cluster, policy: Policy, mesh_keepalive: TcpKeepalive | None
) -> None:
    """Set the limits of a cluster; mesh_keepalive: what the rule's own overrides field by field."""
    tcp, http = policy.tcp, policy.http
    thresholds = cluster.circuit_breakers.thresholds[0]
    for limit_of, value in (
        (thresholds.max_connections, tcp.max_connections),
        (thresholds.max_pending_requests, http.http1_max_pending_requests),
        (thresholds.max_requests, http.http2_max_requests),
        (thresholds.max_retries, http.max_retries),
    ):
        if value:
            limit_of.value = value
    budget = policy.retry_budget
    if budget is not None:
        percent = _BUDGET_PERCENT if budget.percent is None else budget.percent
        thresholds.retry_budget.CopyFrom(
            _RetryBudget(
                budget_percent=percent_pb2.Percent(value=percent),
                min_retry_concurrency=number(budget.min_retry_concurrency or _BUDGET_CONCURRENCY),
            )
        )
    if tcp.connect_timeout is not None:
        cluster.connect_timeout.CopyFrom(duration(tcp.connect_timeout))
    _keep_alive(cluster, tcp.tcp_keepalive, mesh_keepalive)


def _keep_alive(
    cluster: cluster_pb2.Cluster, own: TcpKeepalive | None, mesh: TcpKeepalive | None
) -> None:
    if own is None and mesh is None:
        return
    first, second = own or TcpKeepalive(), mesh or TcpKeepalive()
    keepalive = address_pb2.TcpKeepalive()
    for target, value in (
        ("keepalive_probes", first.probes or second.probes),
        ("keepalive_time", first.time or second.time),
        ("keepalive_interval", first.interval or second.interval),
    ):
        if value:
            getattr(keepalive, target).CopyFrom(number(int(value)))
    cluster.upstream_connection_options.tcp_keepalive.CopyFrom(keepalive)
