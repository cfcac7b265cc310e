"""The rules of several policies as those of one RBAC filter."""

from collections.abc import Iterable, Sequence

from envoy.config.rbac.v3 import rbac_pb2

from envoy_config.generate.policies._rbac_rules import EnforcementPoint, Meaning, rbac_policy
from envoy_config.plan.policies._authorization import Policy

HTTP_RBAC, NETWORK_RBAC = "envoy.filters.http.rbac", "envoy.filters.network.rbac"


def rules_of(
    action: "rbac_pb2.RBAC.Action.ValueType",
    policies: Iterable[Policy],
    trust_domains: Sequence[str],
    point: EnforcementPoint,
    *,
    before: str = "",
    after: str = "",
) -> rbac_pb2.RBAC:
    """Return the rules, by the names of policies; before, after: added to these names."""
    rbac = rbac_pb2.RBAC(action=action)
    for each in policies:
        allows = action == rbac_pb2.RBAC.ALLOW
        meaning = Meaning(each.namespace, trust_domains, allows, point)
        for index, rule in enumerate(each.spec.rules):
            policy = rbac_policy(rule, meaning)
            if policy is not None:
                name = f"{before}ns[{each.namespace}]-policy[{each.name}]-rule[{index}]{after}"
                rbac.policies[name].CopyFrom(policy)
    return rbac
