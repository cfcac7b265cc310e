"""AuthorizationPolicy: which callers may do what at some workloads."""

from istio_config.kinds.authorization_policy._conditions import (
    OF_CALLERS,
    OF_REQUESTS,
    Attribute,
    Condition,
    ConditionKey,
    parse_key,
)
from istio_config.kinds.authorization_policy._kind import (
    AUTHORIZATION_POLICY,
    Action,
    AuthorizationPolicySpec,
    Rule,
)
from istio_config.kinds.authorization_policy._operations import (
    Operation,
    envoy_template,
    is_template,
)
from istio_config.kinds.authorization_policy._sources import Source
from istio_config.kinds.authorization_policy._values import Values
from istio_config.kinds.metadata import DRY_RUN

__all__ = [
    "AUTHORIZATION_POLICY",
    "Action",
    "Attribute",
    "AuthorizationPolicySpec",
    "Condition",
    "ConditionKey",
    "DRY_RUN",
    "OF_CALLERS",
    "OF_REQUESTS",
    "Operation",
    "Rule",
    "Source",
    "Values",
    "envoy_template",
    "is_template",
    "parse_key",
]
