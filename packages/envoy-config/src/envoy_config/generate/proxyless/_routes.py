"""Envoy's routes as gRPC clients take them: what they would refuse or misread is changed or left.

A gRPC client ignores a route that matches query parameters, fails calls whose route does not lead
to clusters, knows a time limit only as the longest duration of a stream, and retries by the names
of its own status codes (gRFC A28, A31, A44). Of configurations by filter it takes that of the
fault filter (A33), and refuses a response with one that it does not know.
"""

from collections.abc import Iterable

from envoy_config.generate._messages import route_components_pb2

FAULT_FILTER = "envoy.filters.http.fault"
_RETRIED = frozenset(
    {"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"}
)
_MOST_RETRIES = 4
"""gRPC clients make five attempts at most."""


def grpc_routes(
    routes: Iterable[route_components_pb2.Route],
) -> list[route_components_pb2.Route]:
    """Return those of the routes that gRPC clients can follow, in their order."""
    return [_route(each) for each in routes if not each.match.query_parameters]


def _route(route: route_components_pb2.Route) -> route_components_pb2.Route:
    message = route_components_pb2.Route(name=route.name, match=route.match)
    if route.HasField("route"):
        message.route.CopyFrom(_action(route.route))
    elif route.HasField("direct_response"):
        message.direct_response.CopyFrom(route.direct_response)
    elif route.HasField("redirect"):
        message.redirect.CopyFrom(route.redirect)
    if FAULT_FILTER in route.typed_per_filter_config:
        message.typed_per_filter_config[FAULT_FILTER].CopyFrom(
            route.typed_per_filter_config[FAULT_FILTER]
        )
    return message


def _action(action: route_components_pb2.RouteAction) -> route_components_pb2.RouteAction:
    message = route_components_pb2.RouteAction()
    match action.WhichOneof("cluster_specifier"):
        case "cluster":
            message.cluster = action.cluster
        case "weighted_clusters":
            for each in action.weighted_clusters.clusters:
                message.weighted_clusters.clusters.add(name=each.name, weight=each.weight)
        case _:
            pass
    if action.timeout.ToMilliseconds() > 0:
        message.max_stream_duration.max_stream_duration.CopyFrom(action.timeout)
    for policy in action.hash_policy:
        if policy.HasField("header"):
            message.hash_policy.append(policy)
    retry = _retry_policy(action.retry_policy) if action.HasField("retry_policy") else None
    if retry is not None:
        message.retry_policy.CopyFrom(retry)
    return message


def _retry_policy(
    policy: route_components_pb2.RetryPolicy,
) -> route_components_pb2.RetryPolicy | None:
    """Keep the conditions that gRPC knows; without one of them it retries nothing."""
    known = [each for each in policy.retry_on.split(",") if each in _RETRIED]
    attempts = policy.num_retries.value if policy.HasField("num_retries") else 1
    if not known or attempts == 0:
        return None
    message = route_components_pb2.RetryPolicy(retry_on=",".join(sorted(known)))
    message.num_retries.value = min(attempts, _MOST_RETRIES)
    if policy.HasField("retry_back_off"):
        message.retry_back_off.CopyFrom(policy.retry_back_off)
    return message
