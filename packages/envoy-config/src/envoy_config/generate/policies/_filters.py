"""All filters of a proxy's policies, in the order in which they act.

The ones of a provider that decides (CUSTOM) come first, then tokens are looked at (JWT), then
AUDIT, DENY and ALLOW. They are the same on each port: ports are looked at inside.
"""

from typing import NamedTuple

from envoy_config.generate._messages import http_connection_manager_pb2, listener_components_pb2
from envoy_config.generate.policies._authorization import http_filters, network_filters
from envoy_config.generate.policies._custom import custom_http_filters, custom_network_filters
from envoy_config.generate.policies._tokens import token_filters
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies


class PolicyFilters(NamedTuple):
    """The filters of policies, for requests and for connections that are not looked into."""

    http: tuple[http_connection_manager_pb2.HttpFilter, ...] = ()
    network: tuple[listener_components_pb2.Filter, ...] = ()


NO_POLICY_FILTERS = PolicyFilters()


def policy_filters(policies: InboundPolicies, *, at_gateway: bool = False) -> PolicyFilters:
    """Make the filters of policies."""
    if policies == NO_POLICIES:
        return NO_POLICY_FILTERS
    return PolicyFilters(
        http=(
            *custom_http_filters(policies.authorization),
            *token_filters(policies.tokens, at_gateway=at_gateway),
            *http_filters(policies.authorization),
        ),
        network=(
            *custom_network_filters(policies.authorization),
            *network_filters(policies.authorization),
        ),
    )
