"""The policies that a proxy enforces on what comes in, with all that they depend on resolved.

Proxies for which these are equal have the same filters. Sidecars enforce none on calls out.
"""

from typing import NamedTuple

from envoy_config.plan._proxy import Proxy
from envoy_config.plan._workload import workload_of
from envoy_config.plan.policies._authorization import (
    NO_AUTHORIZATION,
    Authorization,
    authorization_of,
)
from envoy_config.plan.policies._tokens import NO_TOKENS, Tokens, tokens_of
from mesh_model import MeshModel


class InboundPolicies(NamedTuple):
    """The policies of a proxy."""

    authorization: Authorization = NO_AUTHORIZATION
    tokens: Tokens = NO_TOKENS


NO_POLICIES = InboundPolicies()


def inbound_policies(proxy: Proxy, model: MeshModel) -> InboundPolicies:
    """Return the policies that a proxy enforces."""
    if not model.workload_rules:
        return NO_POLICIES
    workload = workload_of(proxy, model)
    return InboundPolicies(
        authorization=authorization_of(workload, model), tokens=tokens_of(workload, model)
    )
