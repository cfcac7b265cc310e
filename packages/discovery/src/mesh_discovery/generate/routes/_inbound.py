"""The one route of an inbound port, carried in its listener."""

from mesh_discovery.generate._messages import (
    duration,
    route_components_pb2,
    route_pb2,
    wrappers_pb2,
)
from mesh_discovery.generate._passthrough import MARK
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._inbound import InboundPort


def inbound_routes(port: InboundPort) -> route_pb2.RouteConfiguration:
    """Make the routes of an inbound port."""
    cluster = names.inbound_cluster(port.number)
    action = route_components_pb2.RouteAction(cluster=cluster, timeout=duration(0))
    action.max_stream_duration.max_stream_duration.CopyFrom(duration(0))
    return route_pb2.RouteConfiguration(
        name=cluster,
        request_headers_to_remove=[MARK],
        virtual_hosts=[
            route_components_pb2.VirtualHost(
                name=f"inbound|http|{port.service_port}",
                domains=["*"],
                routes=[
                    route_components_pb2.Route(
                        name="default",
                        match=route_components_pb2.RouteMatch(prefix="/"),
                        route=action,
                    )
                ],
            )
        ],
        validate_clusters=wrappers_pb2.BoolValue(value=False),
    )
