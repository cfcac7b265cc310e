"""All filters of a proxy's policies, in the order in which they act.

The ones of a provider that decides (CUSTOM) come first, then tokens are looked at (JWT), then
AUDIT, DENY and ALLOW. They are the same on each port: ports are looked at inside. Extensions stand
between them, by their phases.
"""

from typing import NamedTuple

from envoy_config.generate._extensions import PhaseFilters
from envoy_config.generate._messages import http_connection_manager_pb2, listener_components_pb2
from envoy_config.generate.policies._authorization import http_filters, network_filters
from envoy_config.generate.policies._custom import custom_http_filters, custom_network_filters
from envoy_config.generate.policies._tokens import token_filters
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies

_HttpFilter = http_connection_manager_pb2.HttpFilter
_NetworkFilter = listener_components_pb2.Filter


class PolicyFilters(NamedTuple):
    """The filters of policies, for requests and for connections that are not looked into."""

    custom_http: tuple[_HttpFilter, ...] = ()
    tokens: tuple[_HttpFilter, ...] = ()
    rules_http: tuple[_HttpFilter, ...] = ()
    custom_network: tuple[_NetworkFilter, ...] = ()
    rules_network: tuple[_NetworkFilter, ...] = ()

    def of_requests(self, extensions: PhaseFilters[_HttpFilter]) -> list[_HttpFilter]:
        """Return the filters of requests, with those of extensions between them."""
        return [
            *self.custom_http,
            *extensions.before_tokens,
            *self.tokens,
            *extensions.before_policies,
            *self.rules_http,
            *extensions.behind,
        ]

    def of_connections(self, extensions: PhaseFilters[_NetworkFilter]) -> list[_NetworkFilter]:
        """Return the filters of connections, with those of extensions between them."""
        return [
            *self.custom_network,
            *extensions.before_tokens,
            *extensions.before_policies,
            *self.rules_network,
            *extensions.behind,
        ]


NO_POLICY_FILTERS = PolicyFilters()


def policy_filters(policies: InboundPolicies, *, at_gateway: bool = False) -> PolicyFilters:
    """Make the filters of policies."""
    if policies == NO_POLICIES:
        return NO_POLICY_FILTERS
    return PolicyFilters(
        custom_http=tuple(custom_http_filters(policies.authorization)),
        tokens=tuple(token_filters(policies.tokens, at_gateway=at_gateway)),
        rules_http=tuple(http_filters(policies.authorization)),
        custom_network=tuple(custom_network_filters(policies.authorization)),
        rules_network=tuple(network_filters(policies.authorization)),
    )
