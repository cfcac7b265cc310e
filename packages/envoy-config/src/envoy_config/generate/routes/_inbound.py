"""The one route of an inbound port, carried in its listener."""

from msgspec.structs import replace

from envoy_config.generate._messages import duration, route_components_pb2, route_pb2, wrappers_pb2
from envoy_config.generate._passthrough import MARK
from envoy_config.generate.routes._retries import retry_policy
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._inbound import InboundPort
from envoy_config.plan.redirected._inbound import RedirectedPort
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.virtual_service import HttpRetry
from mesh_model import MeshModel

_RETRY = HttpRetry(attempts=2, retry_on="reset-before-request")
"""The application may close an idle connection just when a request is sent on it."""

_GRPC = (Protocol.GRPC, Protocol.GRPC_WEB)


def inbound_routes(
    port: InboundPort | RedirectedPort, model: MeshModel
) -> route_pb2.RouteConfiguration:
    """Make the route of a port that a service leads to."""
    retry = model.mesh_config.default_inbound_http_retry_policy or _RETRY
    if port.protocol in _GRPC:
        retry = HttpRetry()
    elif not retry.retry_on:
        retry = replace(retry, retry_on=_RETRY.retry_on)
    return _routes(
        names.inbound_cluster(port.number),
        port=port.service_port,
        operation=f"{port.host}:{port.service_port}/*",
        retry=retry,
    )


def passthrough_routes(port: int) -> route_pb2.RouteConfiguration:
    """Make the route of ports that no service leads to; 0: of all of them."""
    return _routes(names.INBOUND_PASSTHROUGH, port=port, operation=f":{port}/*", retry=HttpRetry())


def _routes(
    cluster: str, *, port: int, operation: str, retry: HttpRetry
) -> route_pb2.RouteConfiguration:
    action = route_components_pb2.RouteAction(cluster=cluster, timeout=duration(0))
    action.max_stream_duration.max_stream_duration.CopyFrom(duration(0))
    action.max_stream_duration.grpc_timeout_header_max.CopyFrom(duration(0))
    # There is one application: no other host could be tried.
    if (policy := retry_policy(retry, default=None, hashed=True)) is not None:
        action.retry_policy.CopyFrom(policy)
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
