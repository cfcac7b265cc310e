"""Outbound listeners of redirected proxies.

Nothing connects to them: the one that all connections come to hands each to the listener of the
address and port that it was going to, and keeps those for which there is none.
"""

from collections.abc import Iterable

from envoy_config.generate._filters import http_inspector, tls_inspector
from envoy_config.generate._messages import (
    address,
    address_pb2,
    base_pb2,
    duration,
    listener_components_pb2,
    listener_pb2,
    wrappers_pb2,
)
from envoy_config.generate.listeners._connection_managers import redirected_outbound_manager
from envoy_config.generate.listeners._manager_settings import ManagerSettings, Side, plain_http
from envoy_config.generate.listeners._metric_filters import find_own_workload
from envoy_config.generate.listeners._tcp import cluster_proxy, tcp_chain, tcp_proxy
from envoy_config.generate.listeners._unknown_hosts import look_hosts_up
from envoy_config.generate.telemetry._access_logs import refused_connection_logs
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._proxy_settings import NO_SETTINGS, ProxySettings
from envoy_config.plan.l4._chains import TcpChain, TcpTarget
from envoy_config.plan.redirected._chain_kinds import PLAIN
from envoy_config.plan.redirected._listeners import HttpChain, IpVersions, RedirectedListener
from istio_config.addresses import socket_path
from mesh_model import MeshModel

VIRTUAL_OUTBOUND = "virtualOutbound"
_Chain = listener_components_pb2.FilterChain
_Match = listener_components_pb2.FilterChainMatch
_TRUE = wrappers_pb2.BoolValue(value=True)
_FALSE = wrappers_pb2.BoolValue(value=False)


def virtual_outbound(
    ips: IpVersions,
    rest: TcpTarget,
    model: MeshModel,
    proxy: ProxySettings = NO_SETTINGS,
    *,
    keeps_source: bool,
    passed: Iterable[int] | None = None,
) -> listener_pb2.Listener:
    """Make the listener that all connections of the workload come to.

    rest: the target of those for which there is no other listener. keeps_source: they come with
    their addresses as they are (TPROXY). passed: unknown hosts of requests are looked up, but on
    these ports; None: nowhere.
    """
    port = model.mesh_config.proxy_listen_port
    listener = receiving_listener(
        VIRTUAL_OUTBOUND, ips, port, model, proxy, keeps_source=keeps_source, is_inbound=False
    )
    listener.use_original_dst.CopyFrom(_TRUE)
    listener.filter_chains.append(
        # A connection to this port itself would come back for ever.
        _Chain(
            name="virtualOutbound-blackhole",
            filter_chain_match=_Match(destination_port=wrappers_pb2.UInt32Value(value=port)),
            filters=[cluster_proxy(names.BLACK_HOLE, model, proxy)],
        )
    )
    settings = ManagerSettings(mesh=model.mesh_config, proxy=proxy)
    if passed is not None:
        look_hosts_up(listener, settings, passed=passed)
    before = settings.network_filters(0, Side.OUTBOUND)
    listener.filter_chains.append(
        _Chain(
            name="virtualOutbound-catchall-tcp", filters=[*before, tcp_proxy(rest, model, proxy)]
        )
    )
    find_own_workload(listener, model.mesh_config, proxy, inbound=False)
    return listener


def receiving_listener(
    name: str,
    ips: IpVersions,
    port: int,
    model: MeshModel,
    proxy: ProxySettings,
    *,
    keeps_source: bool,
    is_inbound: bool,
) -> listener_pb2.Listener:
    """Make a listener, without chains, that connections are led to."""
    direction = base_pb2.TrafficDirection
    listener = listener_pb2.Listener(
        name=name,
        address=address(ips.wildcard, port),
        additional_addresses=_additional(ips.further_wildcards, port),
        traffic_direction=direction.INBOUND if is_inbound else direction.OUTBOUND,
        enable_reuse_port=_FALSE,
        max_connections_to_accept_per_socket_event=wrappers_pb2.UInt32Value(value=1),
        access_log=refused_connection_logs(model.mesh_config, proxy, inbound=is_inbound),
    )
    if keeps_source:
        # Never beside `bind_to_port: false`: Envoy (1.36 to 1.40) accepts that and crashes.
        listener.transparent.CopyFrom(_TRUE)
    return listener


def redirected_outbound(
    listener: RedirectedListener, model: MeshModel, proxy: ProxySettings = NO_SETTINGS
) -> listener_pb2.Listener:
    """Make the listener of an address and port."""
    path = socket_path(listener.bind)
    name = names.listener(listener.bind, listener.port) if path is None else listener.bind
    where = address(listener.bind, listener.port)
    if path is not None:
        where = address_pb2.Address(pipe=address_pb2.Pipe(path=path))
    message = listener_pb2.Listener(
        name=name,
        address=where,
        additional_addresses=_additional(listener.further, listener.port),
        traffic_direction=base_pb2.TrafficDirection.OUTBOUND,
        continue_on_listener_filters_timeout=True,
        access_log=refused_connection_logs(model.mesh_config, proxy, inbound=False),
    )
    if listener.is_bound:
        message.enable_reuse_port.CopyFrom(_FALSE)
        message.max_connections_to_accept_per_socket_event.CopyFrom(
            wrappers_pb2.UInt32Value(value=1)
        )
    else:
        message.bind_to_port.CopyFrom(_FALSE)
    _add_chains(message, listener, model, proxy)
    timeout = 0.0
    if any(isinstance(each, TcpChain) and each.needs_sni for each in listener.chains):
        message.listener_filters.append(tls_inspector())
    if any(each.filter_chain_match.application_protocols for each in message.filter_chains):
        message.listener_filters.append(http_inspector())
        timeout = model.mesh_config.protocol_detection_timeout
    message.listener_filters_timeout.CopyFrom(duration(timeout))
    find_own_workload(message, model.mesh_config, proxy, inbound=False)
    return message


def _add_chains(
    message: listener_pb2.Listener,
    listener: RedirectedListener,
    model: MeshModel,
    proxy: ProxySettings,
) -> None:
    settings = ManagerSettings(mesh=model.mesh_config, proxy=proxy)
    before = settings.network_filters(listener.port, Side.OUTBOUND)
    for each in listener.chains:
        chain = (
            _http_chain(each, f"outbound_{message.name}", settings, port=listener.port)
            if isinstance(each, HttpChain)
            else tcp_chain(each, model, proxy, before=before)
        )
        takes_all = not each.detected if isinstance(each, HttpChain) else each.takes_all
        if takes_all and len(listener.chains) > 1:
            message.default_filter_chain.CopyFrom(chain)
        else:
            message.filter_chains.append(chain)
    has_rest = any(
        not each.detected if isinstance(each, HttpChain) else each.takes_all
        for each in listener.chains
    )
    if not has_rest:
        message.default_filter_chain.CopyFrom(
            _Chain(
                name="PassthroughFilterChain",
                filters=[*before, tcp_proxy(listener.rest, model, proxy)],
            )
        )


def _http_chain(
    chain: HttpChain, stat_prefix: str, settings: ManagerSettings, *, port: int
) -> listener_components_pb2.FilterChain:
    manager = redirected_outbound_manager(
        stat_prefix,
        chain.route,
        settings,
        port=port,
        is_grpc_web=chain.is_grpc_web,
    )
    before = settings.network_filters(port, Side.OUTBOUND, of_requests=True)
    filter_chain = _Chain(filters=[*before, manager])
    if chain.detected:
        filter_chain.filter_chain_match.CopyFrom(
            _Match(transport_protocol=PLAIN, application_protocols=plain_http(settings.proxy))
        )
    return filter_chain


def _additional(addresses: tuple[str, ...], port: int) -> list[listener_pb2.AdditionalAddress]:
    return [listener_pb2.AdditionalAddress(address=address(each, port)) for each in addresses]
