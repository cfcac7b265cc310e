"""Listeners, in interception mode NONE: each is bound to its address and port.

`enable_reuse_port` is off: with it, a second Envoy on the machine could bind the same address and
would silently get a share of the connections, to be sent on under the wrong identity.
"""

from envoy_config.generate import _tls as tls
from envoy_config.generate._filters import tls_inspector
from envoy_config.generate._messages import (
    address,
    base_pb2,
    duration,
    listener_components_pb2,
    listener_pb2,
    wrappers_pb2,
)
from envoy_config.generate.listeners._balance import balance
from envoy_config.generate.listeners._connection_managers import (
    bound_outbound_manager,
    inbound_manager,
)
from envoy_config.generate.listeners._manager_settings import ManagerSettings, Side
from envoy_config.generate.listeners._metric_filters import find_own_workload
from envoy_config.generate.listeners._tcp import cluster_proxy, tcp_chain
from envoy_config.generate.policies._filters import policy_filters
from envoy_config.generate.routes._inbound import inbound_routes
from envoy_config.generate.telemetry._access_logs import refused_connection_logs
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._inbound import InboundPort
from envoy_config.plan._outbound import HttpOutbound, Outbound, TcpOutbound
from envoy_config.plan._proxy_settings import NO_SETTINGS, ProxySettings
from envoy_config.plan.l4._chains import TcpChain, to_cluster
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies
from istio_config.kinds.peer_authentication import MutualTlsMode
from mesh_model import MeshModel

_FALSE = wrappers_pb2.BoolValue(value=False)
_MATCH = listener_components_pb2.FilterChainMatch


def inbound_listener(
    port: InboundPort,
    model: MeshModel,
    proxy: ProxySettings = NO_SETTINGS,
    policies: InboundPolicies = NO_POLICIES,
) -> listener_pb2.Listener:
    """Make the listener of a workload's port, with mutual TLS by the port's mode."""
    name = names.listener(port.bind, port.number)
    filters = policy_filters(policies)
    settings = ManagerSettings(mesh=model.mesh_config, proxy=proxy, policies=filters)
    permissive = port.mode is MutualTlsMode.PERMISSIVE
    listener = _listener(name, port.bind, port.number, base_pb2.TrafficDirection.INBOUND)
    listener.access_log.extend(refused_connection_logs(model.mesh_config, proxy, inbound=True))
    balance(listener, proxy)
    listener.filter_chains.extend(_inbound_chains(port, model, name, settings))
    if permissive:
        listener.listener_filters.append(tls_inspector())
        # A server that speaks first gets a silent client: go on in plaintext after a while.
        listener.listener_filters_timeout.CopyFrom(duration(0 if port.protocol.is_http else 5))
        listener.continue_on_listener_filters_timeout = True
    find_own_workload(listener, model.mesh_config, proxy, inbound=True)
    return listener


def _inbound_chains(
    port: InboundPort, model: MeshModel, name: str, settings: ManagerSettings
) -> list[listener_components_pb2.FilterChain]:
    filters = _inbound_filters(port, model, settings)
    chain = listener_components_pb2.FilterChain
    socket = tls.server_socket(
        trust_domains=model.trust_domains,
        http=port.protocol.is_http,
        settings=model.mesh_config.mesh_mtls,
    )
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


def _inbound_filters(
    port: InboundPort, model: MeshModel, settings: ManagerSettings
) -> list[listener_components_pb2.Filter]:
    if not port.protocol.is_http:
        inner = cluster_proxy(
            names.inbound_cluster(port.number), model, settings.proxy, inbound=True
        )
        return [*settings.network_filters(port.number, Side.INBOUND), inner]
    stat_prefix = f"inbound_{names.listener(port.bind, port.number)}"
    manager = inbound_manager(stat_prefix, inbound_routes(port, model), settings, port=port.number)
    return [*settings.network_filters(port.number, Side.INBOUND, of_requests=True), manager]


def outbound_listener(
    outbound: Outbound,
    model: MeshModel,
    proxy: ProxySettings = NO_SETTINGS,
    *,
    chains: tuple[TcpChain, ...] = (),
) -> listener_pb2.Listener:
    """Make a listener for the application's own calls; chains: of TCP, where routes say more."""
    name = names.listener(outbound.bind, outbound.port)
    listener = _listener(name, outbound.bind, outbound.port, base_pb2.TrafficDirection.OUTBOUND)
    listener.access_log.extend(refused_connection_logs(model.mesh_config, proxy, inbound=False))
    settings = ManagerSettings(mesh=model.mesh_config, proxy=proxy)
    is_http = isinstance(outbound, HttpOutbound)
    before = settings.network_filters(outbound.port, Side.OUTBOUND, of_requests=is_http)
    if isinstance(outbound, HttpOutbound):
        manager = bound_outbound_manager(
            f"outbound_{name}", outbound.route, settings, port=outbound.port
        )
        chain = listener_components_pb2.FilterChain(filters=[*before, manager])
        listener.filter_chains.append(chain)
    else:
        chains = chains or (TcpChain(target=to_cluster(outbound.cluster)),)
        listener.filter_chains.extend(
            tcp_chain(each, model, proxy, before=before) for each in chains
        )
        if any(each.needs_sni for each in chains):
            listener.listener_filters.append(tls_inspector())
    if isinstance(outbound, TcpOutbound) or outbound.is_virtual_address:
        # One virtual address that is not on this machine must not fail the listener.
        listener.freebind.CopyFrom(wrappers_pb2.BoolValue(value=outbound.is_virtual_address))
    find_own_workload(listener, model.mesh_config, proxy, inbound=False)
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
