"""The kind AuthorizationPolicy."""

from istio_config.kinds.authorization_policy._mistakes import mistakes
from istio_config.kinds.authorization_policy._spec import AuthorizationPolicySpec
from istio_config.kinds.authorization_policy._warnings import warnings
from istio_config.kinds.kind import Kind

AUTHORIZATION_POLICY = Kind(
    name="AuthorizationPolicy",
    group="security.istio.io",
    versions=("v1", "v1beta1"),
    spec=AuthorizationPolicySpec,
    validate=mistakes,
    warn=warnings,
)
"""Who may call which workloads, and what of them."""
