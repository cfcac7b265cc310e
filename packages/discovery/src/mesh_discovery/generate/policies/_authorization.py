"""The filters of AuthorizationPolicies: RBAC, one for each action that there are policies of.

They act in the order AUDIT, DENY, ALLOW. Policies that are tried out (dry run) are shadow rules:
they count, and decide nothing.
"""

from collections.abc import Iterable, Iterator

from envoy.config.rbac.v3 import rbac_pb2
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as http_rbac_pb2
from envoy.extensions.filters.network.rbac.v3 import rbac_pb2 as network_rbac_pb2

from mesh_discovery.config.kinds.authorization_policy._spec import Action
from mesh_discovery.generate._messages import http_connection_manager_pb2, listener_components_pb2
from mesh_discovery.generate.listeners._filters import http_filter, network_filter
from mesh_discovery.generate.policies._rbac_rules import Meaning, Place, rbac_policy
from mesh_discovery.plan.policies._authorization import Authorization, Policy, is_dry_run

HTTP_RBAC, NETWORK_RBAC = "envoy.filters.http.rbac", "envoy.filters.network.rbac"
_ACTIONS = {
    Action.AUDIT: rbac_pb2.RBAC.LOG,
    Action.DENY: rbac_pb2.RBAC.DENY,
    Action.ALLOW: rbac_pb2.RBAC.ALLOW,
}
"""In the order in which they act."""


def custom_http_filters(
    authorization: Authorization,
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filters that ask external providers about requests."""
    del authorization
    return ()


def http_filters(
    authorization: Authorization, *, proxyless: bool = False
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filters that note, deny and allow requests."""
    place = Place.PROXYLESS if proxyless else Place.REQUESTS_OF_ENVOY
    return tuple(
        http_filter(
            HTTP_RBAC,
            http_rbac_pb2.RBAC(
                rules=each.enforced, shadow_rules=each.tried, shadow_rules_stat_prefix=each.prefix
            ),
        )
        for each in _of_actions(authorization, place)
    )


def network_filters(authorization: Authorization) -> tuple[listener_components_pb2.Filter, ...]:
    """Make the filters of connections that are not looked into, those of providers first."""
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
        for each in _of_actions(authorization, Place.CONNECTIONS)
    )


class _OfAction:
    """The policies of an action, as one filter has them."""

    def __init__(self, action: Action, authorization: Authorization, place: Place) -> None:
        policies = authorization.of_action(action)
        # Dry run has no meaning for AUDIT, which decides nothing anyway.
        tried = [each for each in policies if is_dry_run(each) and action is not Action.AUDIT]
        enforced = [each for each in policies if each not in tried]
        self.enforced = _rules(action, enforced, authorization, place)
        self.tried = _rules(action, tried, authorization, place)
        self.prefix = f"istio_dry_run_{action.lower()}_" if self.tried is not None else ""


def _of_actions(authorization: Authorization, place: Place) -> Iterator[_OfAction]:
    for action in _ACTIONS:
        if authorization.of_action(action):
            yield _OfAction(action, authorization, place)


def _rules(
    action: Action, policies: Iterable[Policy], authorization: Authorization, place: Place
) -> rbac_pb2.RBAC | None:
    """Return the rules of policies; None without policies, which is not the same as no rules."""
    made = None
    for each in policies:
        if made is None:
            made = rbac_pb2.RBAC(action=_ACTIONS[action])
        meaning = Meaning(
            each.namespace, authorization.trust_domains, action is Action.ALLOW, place
        )
        for index, rule in enumerate(each.spec.rules):
            policy = rbac_policy(rule, meaning)
            if policy is not None:
                name = f"ns[{each.namespace}]-policy[{each.name}]-rule[{index}]"
                made.policies[name].CopyFrom(policy)
    return made
