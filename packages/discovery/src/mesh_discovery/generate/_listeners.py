"""Listeners, in interception mode NONE: each is bound to its address and port.

`enable_reuse_port` is off: with it, a second Envoy on the machine could bind the same address and
would silently get a share of the connections, to be sent on under the wrong identity.
"""

from google.protobuf.message import Message

from mesh_discovery.config.kinds._peer_authentication import MutualTlsMode
from mesh_discovery.generate import _tls as tls
from mesh_discovery.generate._access_log import access_logs
from mesh_discovery.generate._messages import (
    address,
    base_pb2,
    duration,
    from_ads,
    http_connection_manager_pb2,
    listener_components_pb2,
    listener_pb2,
    packed,
    router_pb2,
    tcp_proxy_pb2,
    tls_inspector_pb2,
    wrappers_pb2,
)
from mesh_discovery.generate._passthrough import lookup_filter
from mesh_discovery.generate._routes import inbound_routes
from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._inbound import InboundPort
from mesh_discovery.plan._outbound import HttpOutbound, Outbound, TcpOutbound

_TRUE = wrappers_pb2.BoolValue(value=True)
_FALSE = wrappers_pb2.BoolValue(value=False)
_MATCH = listener_components_pb2.FilterChainMatch


def inbound_listener(port: InboundPort, model: MeshModel) -> listener_pb2.Listener:
    """Make the listener of a workload's port, with mutual TLS by the port's mode."""
    name = names.listener(port.bind, port.number)
    permissive = port.mode is MutualTlsMode.PERMISSIVE
    listener = _listener(name, port.bind, port.number, base_pb2.TrafficDirection.INBOUND)
    listener.filter_chains.extend(_inbound_chains(port, model, name))
    if permissive:
        listener.listener_filters.append(
            listener_components_pb2.ListenerFilter(
                name="envoy.filters.listener.tls_inspector",
                typed_config=packed(tls_inspector_pb2.TlsInspector()),
            )
        )
        # A server that speaks first gets a silent client: go on in plaintext after a while.
        listener.listener_filters_timeout.CopyFrom(duration(0 if port.protocol.is_http else 5))
        listener.continue_on_listener_filters_timeout = True
    return listener


def _inbound_chains(
    port: InboundPort, model: MeshModel, name: str
) -> list[listener_components_pb2.FilterChain]:
    filters = [_inbound_http(port, model) if port.protocol.is_http else _inbound_tcp(port, model)]
    chain = listener_components_pb2.FilterChain
    socket = tls.server_socket(trust_domains=model.trust_domains, http=port.protocol.is_http)
    secure = chain(name=name, filters=filters, transport_socket=socket)
    plain = chain(name=name, filters=filters)
    match port.mode:
        case MutualTlsMode.STRICT:
            return [secure]
        case MutualTlsMode.DISABLE:
            return [plain]
        case _:
            # TLS on an HTTP port can only be meant for the mesh; on others it may be the
            # application's own, so the mesh's must say so by ALPN.
            alpn = () if port.protocol.is_http else tls.MESH_ALPN
            secure.filter_chain_match.CopyFrom(
                _MATCH(transport_protocol="tls", application_protocols=alpn)
            )
            plain.filter_chain_match.CopyFrom(_MATCH(transport_protocol="raw_buffer"))
            chains = [secure, plain]
            if not port.protocol.is_http:
                own = chain(name=name, filters=filters)
                own.filter_chain_match.CopyFrom(_MATCH(transport_protocol="tls"))
                chains.append(own)
            return chains


def outbound_listener(outbound: Outbound, model: MeshModel) -> listener_pb2.Listener:
    """Make a listener for the application's own calls."""
    name = names.listener(outbound.bind, outbound.port)
    listener = _listener(name, outbound.bind, outbound.port, base_pb2.TrafficDirection.OUTBOUND)
    if isinstance(outbound, HttpOutbound):
        network_filter = _outbound_http(outbound, model, name)
    else:
        network_filter = _tcp(outbound.cluster, outbound.cluster, model)
    if isinstance(outbound, TcpOutbound) or outbound.is_virtual_address:
        # One virtual address that is not on this machine must not fail the listener.
        listener.freebind.CopyFrom(wrappers_pb2.BoolValue(value=outbound.is_virtual_address))
    listener.filter_chains.append(listener_components_pb2.FilterChain(filters=[network_filter]))
    return listener


def _listener(
    name: str, bind: str, port: int, direction: "base_pb2.TrafficDirection.ValueType"
) -> listener_pb2.Listener:
    return listener_pb2.Listener(
        name=name,
        address=address(bind, port),
        traffic_direction=direction,
        enable_reuse_port=_FALSE,
    )


_Hcm = http_connection_manager_pb2.HttpConnectionManager


def _inbound_http(port: InboundPort, model: MeshModel) -> listener_components_pb2.Filter:
    hcm = _http(f"inbound_{names.listener(port.bind, port.number)}", model)
    hcm.server_name = "istio-envoy"
    hcm.route_config.CopyFrom(inbound_routes(port))
    hcm.use_remote_address.CopyFrom(_FALSE)
    hcm.forward_client_cert_details = _Hcm.ForwardClientCertDetails.APPEND_FORWARD
    hcm.set_current_client_cert_details.CopyFrom(
        _Hcm.SetCurrentClientCertDetails(subject=_TRUE, dns=True, uri=True)
    )
    return _network("envoy.filters.network.http_connection_manager", hcm)


def _outbound_http(
    outbound: HttpOutbound, model: MeshModel, name: str
) -> listener_components_pb2.Filter:
    hcm = _http(f"outbound_{name}", model)
    hcm.server_header_transformation = _Hcm.ServerHeaderTransformation.PASS_THROUGH
    hcm.rds.CopyFrom(
        http_connection_manager_pb2.Rds(config_source=from_ads(), route_config_name=outbound.route)
    )
    hcm.use_remote_address.CopyFrom(_TRUE)
    hcm.http_filters.insert(0, lookup_filter())
    # What an application says of a client's certificate is worth nothing to its peers.
    hcm.forward_client_cert_details = _Hcm.ForwardClientCertDetails.SANITIZE
    return _network("envoy.filters.network.http_connection_manager", hcm)


def _http(stat_prefix: str, model: MeshModel) -> http_connection_manager_pb2.HttpConnectionManager:
    return _Hcm(
        stat_prefix=stat_prefix,
        codec_type=_Hcm.CodecType.AUTO,
        http_filters=[
            http_connection_manager_pb2.HttpFilter(
                name="envoy.filters.http.router", typed_config=packed(router_pb2.Router())
            )
        ],
        upgrade_configs=[_Hcm.UpgradeConfig(upgrade_type="websocket")],
        access_log=access_logs(model.mesh_config),
        generate_request_id=_TRUE,
        normalize_path=_TRUE,
        stream_idle_timeout=duration(0),
    )


def _inbound_tcp(port: InboundPort, model: MeshModel) -> listener_components_pb2.Filter:
    cluster = names.inbound_cluster(port.number)
    return _tcp(cluster, cluster, model)


def _tcp(stat_prefix: str, cluster: str, model: MeshModel) -> listener_components_pb2.Filter:
    return _network(
        "envoy.filters.network.tcp_proxy",
        tcp_proxy_pb2.TcpProxy(
            stat_prefix=stat_prefix, cluster=cluster, access_log=access_logs(model.mesh_config)
        ),
    )


def _network(name: str, config: Message) -> listener_components_pb2.Filter:
    return listener_components_pb2.Filter(name=name, typed_config=packed(config))
