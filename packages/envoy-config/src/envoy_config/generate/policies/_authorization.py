"""The filters of AuthorizationPolicies: RBAC, one for each action that there are policies of.

They act in the order AUDIT, DENY, ALLOW. Policies that are tried out (dry run) are shadow rules:
they count, and decide nothing.
"""

from collections.abc import Iterator

from envoy.config.rbac.v3 import rbac_pb2
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as http_rbac_pb2
from envoy.extensions.filters.network.rbac.v3 import rbac_pb2 as network_rbac_pb2

from envoy_config.generate._filters import http_filter, network_filter
from envoy_config.generate._messages import http_connection_manager_pb2, listener_components_pb2
from envoy_config.generate.policies._rbac_rules import EnforcementPoint
from envoy_config.generate.policies._rules import HTTP_RBAC, NETWORK_RBAC, rules_of
from envoy_config.plan.policies._authorization import Authorization, is_dry_run
from istio_config.kinds.authorization_policy import Action

_ACTIONS = {
    Action.AUDIT: rbac_pb2.RBAC.LOG,
    Action.DENY: rbac_pb2.RBAC.DENY,
    Action.ALLOW: rbac_pb2.RBAC.ALLOW,
}
"""In the order in which they act."""


def http_filters(
    authorization: Authorization, *, proxyless: bool = False
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filters that note, deny and allow requests."""
    point = EnforcementPoint.PROXYLESS if proxyless else EnforcementPoint.REQUESTS_OF_ENVOY
    return tuple(
        http_filter(
            HTTP_RBAC,
            http_rbac_pb2.RBAC(
                rules=each.enforced, shadow_rules=each.tried, shadow_rules_stat_prefix=each.prefix
            ),
        )
        for each in _of_actions(authorization, point)
    )


def network_filters(authorization: Authorization) -> tuple[listener_components_pb2.Filter, ...]:
    """Make the filters that note, deny and allow connections that are not looked into."""
    return tuple(
        network_filter(
            NETWORK_RBAC,
            network_rbac_pb2.RBAC(
                rules=each.enforced,
                shadow_rules=each.tried,
                shadow_rules_stat_prefix=each.prefix,
                stat_prefix="tcp.",
            ),
        )
        for each in _of_actions(authorization, EnforcementPoint.CONNECTIONS)
    )


class _OfAction:
    """The policies of an action, as one filter has them."""

    def __init__(
        self, action: Action, authorization: Authorization, point: EnforcementPoint
    ) -> None:
        policies = authorization.of_action(action)
        # Dry run has no meaning for AUDIT, which decides nothing anyway.
        tried = [each for each in policies if is_dry_run(each) and action is not Action.AUDIT]
        enforced = [each for each in policies if each not in tried]
        domains = authorization.trust_domains
        # Without policies there are no rules; without a rule, ALLOW would allow nothing.
        self.enforced = rules_of(_ACTIONS[action], enforced, domains, point) if enforced else None
        self.tried = rules_of(_ACTIONS[action], tried, domains, point) if tried else None
        self.prefix = f"istio_dry_run_{action.lower()}_" if self.tried is not None else ""


def _of_actions(authorization: Authorization, point: EnforcementPoint) -> Iterator[_OfAction]:
    for action in _ACTIONS:
        if authorization.of_action(action):
            yield _OfAction(action, authorization, point)
