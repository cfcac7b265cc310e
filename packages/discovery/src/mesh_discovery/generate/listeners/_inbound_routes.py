"""The one route of a captured inbound port, carried in its listener."""

from mesh_discovery.generate._messages import (
    duration,
    route_components_pb2,
    route_pb2,
    wrappers_pb2,
)
from mesh_discovery.generate._passthrough import MARK
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan.capture._inbound import CapturedPort

_RETRIES = 2


def captured_routes(port: CapturedPort) -> route_pb2.RouteConfiguration:
    """Make the route of a port that a service leads to."""
    return _routes(
        names.inbound_cluster(port.number),
        port=port.service_port,
        operation=f"{port.host}:{port.service_port}/*",
        retries=not port.is_grpc,
    )


def passthrough_routes(port: int) -> route_pb2.RouteConfiguration:
    """Make the route of ports that no service leads to; 0: of all of them."""
    return _routes(names.INBOUND_PASSTHROUGH, port=port, operation=f":{port}/*", retries=False)


def _routes(
    cluster: str, *, port: int, operation: str, retries: bool
) -> route_pb2.RouteConfiguration:
    action = route_components_pb2.RouteAction(cluster=cluster, timeout=duration(0))
    action.max_stream_duration.max_stream_duration.CopyFrom(duration(0))
    action.max_stream_duration.grpc_timeout_header_max.CopyFrom(duration(0))
    if retries:
        # The application may close an idle connection just when a request is sent on it.
        action.retry_policy.CopyFrom(
            route_components_pb2.RetryPolicy(
                retry_on="reset-before-request",
                num_retries=wrappers_pb2.UInt32Value(value=_RETRIES),
            )
        )
    return route_pb2.RouteConfiguration(
        name=cluster,
        request_headers_to_remove=[MARK],
        virtual_hosts=[
            route_components_pb2.VirtualHost(
                name=f"inbound|http|{port}",
                domains=["*"],
                routes=[
                    route_components_pb2.Route(
                        name="default",
                        match=route_components_pb2.RouteMatch(prefix="/"),
                        route=action,
                        decorator=route_components_pb2.Decorator(operation=operation),
                    )
                ],
            )
        ],
        validate_clusters=wrappers_pb2.BoolValue(value=False),
    )
