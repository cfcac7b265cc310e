"""The route of a service that no VirtualService governs."""

from mesh_discovery.config.kinds.virtual_service._actions import HttpRetry
from mesh_discovery.generate._hash_policies import hash_policies
from mesh_discovery.generate._messages import route_components_pb2
from mesh_discovery.generate.routes._own_alpn import keep_own_alpn
from mesh_discovery.generate.routes._retries import retry_policy
from mesh_discovery.generate.routes._virtual_hosts import onward_route
from mesh_discovery.plan.virtual_hosts._targets import Target


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
