"""The kind AuthorizationPolicy."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.authorization_policy._mistakes import mistakes
from mesh_discovery.config.kinds.authorization_policy._spec import AuthorizationPolicySpec
from mesh_discovery.config.kinds.authorization_policy._warnings import warnings

AUTHORIZATION_POLICY = Kind(
    name="AuthorizationPolicy",
    group="security.istio.io",
    versions=("v1", "v1beta1"),
    spec=AuthorizationPolicySpec,
    validate=mistakes,
    warn=warnings,
)
"""Who may call which workloads, and what of them."""
