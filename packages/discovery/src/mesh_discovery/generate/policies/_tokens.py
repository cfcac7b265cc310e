"""The filter that checks the tokens of requests."""

from mesh_discovery.generate._messages import http_connection_manager_pb2
from mesh_discovery.plan.policies._tokens import Tokens


def token_filters(
    tokens: Tokens, *, at_gateway: bool
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filter: none if there is nothing to check.

    at_gateway: routes there may be chosen by what a token says.
    """
    del tokens, at_gateway
    return ()
