"""The listeners of routers, one for each address and port, with a filter chain for each server."""

from collections.abc import Sequence
from typing import NamedTuple

from envoy_config.generate._filters import proxy_protocol, tls_inspector
from envoy_config.generate._messages import (
    address,
    address_pb2,
    base_pb2,
    duration,
    listener_components_pb2,
    listener_pb2,
    wrappers_pb2,
)
from envoy_config.generate._tls import MESH_ALPN
from envoy_config.generate.gateway._tls import server_socket
from envoy_config.generate.listeners._connection_managers import gateway_manager
from envoy_config.generate.listeners._manager_settings import ManagerSettings, Side
from envoy_config.generate.listeners._metric_filters import find_own_workload
from envoy_config.generate.listeners._tcp import tcp_chain
from envoy_config.generate.policies._filters import policy_filters
from envoy_config.generate.telemetry._access_logs import refused_connection_logs
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._proxy_settings import NO_SETTINGS, ProxySettings
from envoy_config.plan.gateway._chains import GatewayChain
from envoy_config.plan.gateway._servers import PlannedListener
from envoy_config.plan.l4._chains import TcpChain
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies
from istio_config.addresses import socket_path
from istio_config.kinds.mesh_config import GatewayTopology
from istio_config.kinds.protocol import Protocol
from mesh_model import MeshModel

_HANDSHAKE_TIMEOUT_S = 15.0


class RouterSettings(NamedTuple):
    """The part of a router that its listeners depend on, besides its Gateways.

    addresses: where listeners without an address of their own are bound, the first above all.
    topology: the proxies between clients and the router. proxy: its further settings. policies:
    those that it enforces.
    """

    addresses: tuple[str, ...]
    topology: GatewayTopology
    proxy: ProxySettings = NO_SETTINGS
    policies: InboundPolicies = NO_POLICIES


def gateway_listener(
    listener: PlannedListener,
    chains: Sequence[GatewayChain],
    model: MeshModel,
    *,
    router: RouterSettings,
    shares_port: bool = False,
) -> listener_pb2.Listener:
    """Make a listener of some chains.

    shares_port: there is another listener with this port, at another address.
    """
    bound = (listener.address.bind,) if listener.address.bind else router.addresses
    first, *others = (_address(each, listener.address.port) for each in bound)
    name = names.listener(bound[0], listener.address.port)
    message = listener_pb2.Listener(
        name=name,
        address=first,
        additional_addresses=[listener_pb2.AdditionalAddress(address=each) for each in others],
        traffic_direction=base_pb2.TrafficDirection.OUTBOUND,
        # Off, so that no other Envoy of the machine gets a share of the connections unnoticed; but
        # without it no address can be bound beside all addresses.
        enable_reuse_port=wrappers_pb2.BoolValue(value=shares_port),
        access_log=refused_connection_logs(model.mesh_config, router.proxy, inbound=False),
    )
    filters = policy_filters(router.policies, at_gateway=True)
    settings = ManagerSettings(mesh=model.mesh_config, proxy=router.proxy, policies=filters)
    limit = settings.connections(Side.GATEWAY).listener_per_connection_buffer_limit_bytes
    if limit is not None:
        message.per_connection_buffer_limit_bytes.CopyFrom(wrappers_pb2.UInt32Value(value=limit))
    is_grpc_web = any(each.protocol is Protocol.GRPC_WEB for each in listener.servers)
    by_tls = any(each.server.is_tls for each in chains)
    for each in chains:
        chain = _chain(each, name, model, router=router, settings=settings, is_grpc_web=is_grpc_web)
        if by_tls and not each.server.is_tls:
            chain.filter_chain_match.transport_protocol = "raw_buffer"
        message.filter_chains.append(chain)
    if router.topology.proxy_protocol is not None:
        message.listener_filters.append(proxy_protocol())
    if by_tls:
        message.listener_filters.append(tls_inspector())
    find_own_workload(message, model.mesh_config, router.proxy, inbound=False)
    return message


def _chain(
    chain: GatewayChain,
    listener_name: str,
    model: MeshModel,
    *,
    router: RouterSettings,
    settings: ManagerSettings,
    is_grpc_web: bool,
) -> listener_components_pb2.FilterChain:
    server = chain.server
    port = server.server.port.number
    if chain.target is not None:
        filter_chain = tcp_chain(
            TcpChain(target=chain.target, server_names=chain.server_names, origin=chain.origin),
            model,
            router.proxy,
            before=settings.network_filters(port, Side.GATEWAY),
        )
    else:
        stat_prefix = f"outbound_{listener_name}"
        if server.is_tls and server.server.name:
            stat_prefix = server.server.name
        manager = gateway_manager(
            stat_prefix,
            server.route,
            settings,
            port=port,
            topology=router.topology,
            is_grpc_web=is_grpc_web and not server.is_tls,
        )
        before = settings.network_filters(port, Side.GATEWAY, of_requests=True)
        filter_chain = listener_components_pb2.FilterChain(filters=[*before, manager])
        filter_chain.filter_chain_match.server_names.extend(chain.server_names)
    if chain.from_mesh:
        filter_chain.filter_chain_match.application_protocols.extend(MESH_ALPN)
    if server.ends_tls and server.server.tls is not None:
        filter_chain.transport_socket.CopyFrom(
            server_socket(
                server.server.tls,
                trust_domains=model.trust_domains,
                defaults=model.mesh_config.tls_defaults,
            )
        )
    filter_chain.transport_socket_connect_timeout.CopyFrom(duration(_HANDSHAKE_TIMEOUT_S))
    return filter_chain


def _address(bind: str, port: int) -> address_pb2.Address:
    path = socket_path(bind)
    if path is not None:
        return address_pb2.Address(pipe=address_pb2.Pipe(path=path))
    return address(bind, port)
