"""AuthorizationPolicy: its fields, its mistakes, and the languages of its paths and conditions."""

from istio_config.kinds.authorization_policy._conditions import (
    OF_CALLERS,
    OF_REQUESTS,
    Attribute,
    ConditionKey,
    parse_key,
)
from istio_config.kinds.authorization_policy._kind import AUTHORIZATION_POLICY
from istio_config.kinds.authorization_policy._path_templates import envoy_template, is_template
from istio_config.kinds.authorization_policy._spec import (
    DRY_RUN,
    Action,
    AuthorizationPolicySpec,
    Condition,
    Operation,
    Rule,
    Source,
    Values,
)

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
