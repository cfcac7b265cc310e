"""The plans of proxies, for those who look for what has no effect.

No proxy is given any of it: what is given is in `PushContext`.
"""

from envoy_config.plan._auto_mtls import uses_mutual_tls, uses_mutual_tls_for_all
from envoy_config.plan._envoy_names import HTTP_PROXY_ROUTE
from envoy_config.plan._outbound import Conflict, Outbound, wanted_listeners
from envoy_config.plan._provider_services import provider_service
from envoy_config.plan._traffic_policy import effective_policy
from envoy_config.plan.gateway._account_workloads import (
    account_workloads,
    known_labels,
    same_objects,
)
from envoy_config.plan.gateway._bindings import bound_hosts
from envoy_config.plan.gateway._secret_access import names_its_routers
from envoy_config.plan.gateway._servers import LeftOut, plan_router
from envoy_config.plan.telemetry._levels import first_for_all, is_for_all
from envoy_config.plan.telemetry._providers import BUILT_IN_LOG, makes_metrics, providers_of

__all__ = [
    "BUILT_IN_LOG",
    "HTTP_PROXY_ROUTE",
    "Conflict",
    "LeftOut",
    "Outbound",
    "account_workloads",
    "bound_hosts",
    "effective_policy",
    "first_for_all",
    "is_for_all",
    "known_labels",
    "makes_metrics",
    "names_its_routers",
    "plan_router",
    "provider_service",
    "providers_of",
    "same_objects",
    "uses_mutual_tls",
    "uses_mutual_tls_for_all",
    "wanted_listeners",
]
