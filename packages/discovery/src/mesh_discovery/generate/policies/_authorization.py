"""The filters of AuthorizationPolicies: RBAC, and the checks of external providers (CUSTOM)."""

from mesh_discovery.generate._messages import http_connection_manager_pb2, listener_components_pb2
from mesh_discovery.plan.policies._authorization import Authorization


def custom_http_filters(
    authorization: Authorization,
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filters that ask external providers about requests."""
    del authorization
    return ()


def http_filters(
    authorization: Authorization,
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filters that note, deny and allow requests."""
    del authorization
    return ()


def network_filters(authorization: Authorization) -> tuple[listener_components_pb2.Filter, ...]:
    """Make the filters of connections that are not looked into, those of providers first."""
    del authorization
    return ()
