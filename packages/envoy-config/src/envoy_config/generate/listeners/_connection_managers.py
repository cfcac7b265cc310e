"""The filter that takes connections as requests: its settings, with Istio's values.

Redirected proxies differ from others in two things: where a connection was going is known, so that
unknown hosts are not looked up, and servers tell by ALPN that requests come.
"""

from envoy_config.generate._filters import grpc_filters, mesh_alpn, network_filter, route_filters
from envoy_config.generate._messages import (
    duration,
    from_ads,
    http_connection_manager_pb2,
    listener_components_pb2,
    route_pb2,
    wrappers_pb2,
)
from envoy_config.generate._passthrough import lookup_filter
from envoy_config.generate.listeners._manager_settings import (
    ManagerSettings,
    Side,
    apply_settings,
    suppresses_debug_headers,
)
from envoy_config.generate.listeners._metric_filters import find_protocol
from envoy_config.generate.telemetry._access_logs import request_logs
from envoy_config.generate.telemetry._tracing import trace
from envoy_config.plan.telemetry._telemetry import side_of
from istio_config.kinds.mesh_config import ClientCertDetails, GatewayTopology

_TRUE = wrappers_pb2.BoolValue(value=True)
_FALSE = wrappers_pb2.BoolValue(value=False)
_Manager = http_connection_manager_pb2.HttpConnectionManager
HttpFilters = list[http_connection_manager_pb2.HttpFilter]


def inbound_manager(
    stat_prefix: str,
    routes: route_pb2.RouteConfiguration,
    settings: ManagerSettings,
    *,
    port: int,
    is_http2: bool = False,
    is_grpc_web: bool = False,
) -> listener_components_pb2.Filter:
    """Make the filter of an inbound port, with its routes; 0: one that is no service's."""
    own = settings.http_filters(port, Side.INBOUND)
    filters = [*own, *grpc_filters(is_web=is_grpc_web)]
    manager = _manager(stat_prefix, settings, filters)
    manager.server_name = "istio-envoy"
    manager.route_config.CopyFrom(routes)
    manager.use_remote_address.CopyFrom(_FALSE)
    manager.forward_client_cert_details = _Manager.ForwardClientCertDetails.APPEND_FORWARD
    if is_http2:
        manager.http2_protocol_options.SetInParent()
    return _filter(manager, settings, Side.INBOUND)


def bound_outbound_manager(
    stat_prefix: str, route: str, settings: ManagerSettings, *, port: int
) -> listener_components_pb2.Filter:
    """Make the filter of an outbound listener that the application connects to by itself."""
    filters = [*settings.http_filters(port, Side.OUTBOUND), lookup_filter()]
    manager = _manager(stat_prefix, settings, filters)
    manager.server_header_transformation = _Manager.ServerHeaderTransformation.PASS_THROUGH
    manager.rds.CopyFrom(_by_name(route))
    manager.use_remote_address.CopyFrom(_TRUE)
    # What an application says of a client's certificate is worth nothing to its peers.
    manager.forward_client_cert_details = _Manager.ForwardClientCertDetails.SANITIZE
    return _filter(manager, settings, Side.OUTBOUND)


def redirected_outbound_manager(
    stat_prefix: str,
    route: str,
    settings: ManagerSettings,
    *,
    port: int,
    is_grpc_web: bool = False,
) -> listener_components_pb2.Filter:
    """Make the filter of an outbound listener of a redirected proxy."""
    own = settings.http_filters(port, Side.OUTBOUND)
    filters = [*own, *grpc_filters(is_web=is_grpc_web), mesh_alpn(), lookup_filter()]
    manager = _manager(stat_prefix, settings, filters)
    manager.rds.CopyFrom(_by_name(route))
    manager.use_remote_address.CopyFrom(_FALSE)
    manager.forward_client_cert_details = _Manager.ForwardClientCertDetails.SANITIZE
    return _filter(manager, settings, Side.OUTBOUND)


def unknown_hosts_manager(
    stat_prefix: str, routes: route_pb2.RouteConfiguration, settings: ManagerSettings
) -> listener_components_pb2.Filter:
    """Make the filter of a redirected proxy's requests for which there is no other listener."""
    filters = [*settings.http_filters(0, Side.OUTBOUND), lookup_filter()]
    manager = _manager(stat_prefix, settings, filters)
    manager.route_config.CopyFrom(routes)
    manager.use_remote_address.CopyFrom(_FALSE)
    manager.forward_client_cert_details = _Manager.ForwardClientCertDetails.SANITIZE
    return _filter(manager, settings, Side.OUTBOUND)


def gateway_manager(
    stat_prefix: str,
    route: str,
    settings: ManagerSettings,
    *,
    port: int,
    topology: GatewayTopology,
    is_grpc_web: bool = False,
) -> listener_components_pb2.Filter:
    """Make the filter of a gateway's servers of one route configuration.

    topology: the proxies before the gateway; what they say of a client is believed.
    """
    own = settings.http_filters(port, Side.GATEWAY)
    filters = [*own, *grpc_filters(is_web=is_grpc_web), mesh_alpn()]
    manager = _manager(stat_prefix, settings, filters)
    manager.server_name = "istio-envoy"
    manager.rds.CopyFrom(_by_name(route))
    manager.use_remote_address.CopyFrom(_TRUE)
    manager.xff_num_trusted_hops = topology.num_trusted_proxies
    details = topology.forward_client_cert_details
    if details is ClientCertDetails.UNDEFINED:
        details = ClientCertDetails.SANITIZE_SET
    manager.forward_client_cert_details = _Manager.ForwardClientCertDetails.Value(details)
    if details in (ClientCertDetails.SANITIZE_SET, ClientCertDetails.APPEND_FORWARD):
        manager.set_current_client_cert_details.CopyFrom(
            _Manager.SetCurrentClientCertDetails(subject=_TRUE, cert=True, dns=True, uri=True)
        )
    return _filter(manager, settings, Side.GATEWAY)


def _manager(
    stat_prefix: str, settings: ManagerSettings, filters: HttpFilters
) -> http_connection_manager_pb2.HttpConnectionManager:
    """Make a manager with these filters before those of all."""
    suppressed = suppresses_debug_headers(settings)
    return _Manager(
        stat_prefix=stat_prefix,
        codec_type=_Manager.CodecType.AUTO,
        http_filters=[*filters, *route_filters(suppresses_debug_headers=suppressed)],
        upgrade_configs=[_Manager.UpgradeConfig(upgrade_type="websocket")],
        generate_request_id=_TRUE,
        proxy_100_continue=True,
        stream_idle_timeout=duration(0),
    )


def _by_name(route: str) -> http_connection_manager_pb2.Rds:
    return http_connection_manager_pb2.Rds(config_source=from_ads(), route_config_name=route)


def _filter(
    manager: http_connection_manager_pb2.HttpConnectionManager,
    settings: ManagerSettings,
    side: Side,
) -> listener_components_pb2.Filter:
    apply_settings(manager, settings, side)
    inbound = side is Side.INBOUND
    manager.access_log.extend(request_logs(settings.mesh, settings.proxy, inbound=inbound))
    telemetry = side_of(settings.proxy, settings.mesh, inbound=inbound)
    trace(manager, telemetry.tracing, at_gateway=side is Side.GATEWAY)
    if telemetry.metrics:
        find_protocol(manager)
    return network_filter("envoy.filters.network.http_connection_manager", manager)
