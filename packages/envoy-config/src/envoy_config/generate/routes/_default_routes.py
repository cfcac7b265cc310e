"""The route of a service that no VirtualService governs."""

from envoy_config.generate._hash_policies import hash_policies
from envoy_config.generate._messages import route_components_pb2
from envoy_config.generate.routes._own_alpn import keep_own_alpn
from envoy_config.generate.routes._retries import retry_policy
from envoy_config.generate.routes._virtual_hosts import onward_route
from envoy_config.plan.virtual_hosts._targets import Target
from istio_config.kinds.virtual_service import HttpRetry


def default_route(
    host: str, port: int, target: Target, *, retries: HttpRetry | None
) -> route_components_pb2.Route:
    """Make the route of all requests to a service's port; retries: the mesh's, if it has any."""
    made = onward_route(target.cluster)
    made.route.hash_policy.extend(hash_policies(target.hashing))
    policy = retry_policy(None, default=retries, hashed=bool(made.route.hash_policy))
    if policy is not None:
        made.route.retry_policy.CopyFrom(policy)
    if target.own_alpn:
        keep_own_alpn(made)
    made.decorator.operation = f"{host}:{port}/*"
    return made
