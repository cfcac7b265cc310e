"""The configuration of proxies as Envoy's messages: pure functions from the model of a mesh."""

from envoy_config._accounts import accounts_in
from envoy_config.changes._config_keys import OF_PATCHES, OF_RULES, OF_WORKLOADS, Changed
from envoy_config.changes._difference import difference
from envoy_config.context._context import PushContext
from envoy_config.context._proxyless import ProxylessContext
from envoy_config.plan._envoy_names import parse_outbound_cluster
from envoy_config.plan._proxy import NodeError, NotServedError, Proxy, as_stranger, parse_proxy
from envoy_config.plan._workload import workload_of
from envoy_config.plan.gateway._unused import left_out_problems

__all__ = [
    "Changed",
    "NodeError",
    "NotServedError",
    "OF_PATCHES",
    "OF_RULES",
    "OF_WORKLOADS",
    "Proxy",
    "ProxylessContext",
    "PushContext",
    "accounts_in",
    "as_stranger",
    "difference",
    "left_out_problems",
    "parse_outbound_cluster",
    "parse_proxy",
    "workload_of",
]
