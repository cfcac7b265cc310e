"""The listener that all connections to a redirected workload come to.

Its chains tell the ports apart, and on each port the mesh's TLS from the application's own.
"""

from collections.abc import Sequence

from envoy_config.generate import _tls as tls
from envoy_config.generate._filters import (
    Ports,
    http_inspector,
    original_destination,
    original_source,
    tls_inspector,
)
from envoy_config.generate._messages import (
    address,
    base_pb2,
    duration,
    listener_components_pb2,
    listener_pb2,
    wrappers_pb2,
)
from envoy_config.generate.listeners._balance import balance
from envoy_config.generate.listeners._connection_managers import inbound_manager
from envoy_config.generate.listeners._manager_settings import ManagerSettings, Side, plain_http
from envoy_config.generate.listeners._metric_filters import find_own_workload
from envoy_config.generate.listeners._redirected_outbound import receiving_listener
from envoy_config.generate.listeners._tcp import cluster_proxy, mongo_statistics
from envoy_config.generate.policies._filters import policy_filters
from envoy_config.generate.routes._inbound import inbound_routes, passthrough_routes
from envoy_config.generate.telemetry._access_logs import refused_connection_logs
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._proxy_settings import NO_SETTINGS, ProxySettings
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies
from envoy_config.plan.redirected._chain_kinds import (
    PLAIN_HTTP,
    ChainKind,
    needs_http_inspector,
    needs_tls_inspector,
)
from envoy_config.plan.redirected._inbound import OtherPort, RedirectedInbound, RedirectedPort
from istio_config.kinds.protocol import Protocol
from mesh_model import MeshModel

VIRTUAL_INBOUND = "virtualInbound"
_Chain = listener_components_pb2.FilterChain
_Match = listener_components_pb2.FilterChainMatch


def virtual_inbound(
    inbound: RedirectedInbound,
    model: MeshModel,
    proxy: ProxySettings = NO_SETTINGS,
    policies: InboundPolicies = NO_POLICIES,
) -> listener_pb2.Listener:
    """Make the listener of a workload."""
    port = model.mesh_config.proxy_inbound_listen_port
    filters = policy_filters(policies)
    settings = ManagerSettings(mesh=model.mesh_config, proxy=proxy, policies=filters)
    listener = receiving_listener(
        VIRTUAL_INBOUND,
        inbound.ips,
        port,
        model,
        proxy,
        keeps_source=inbound.keeps_source,
        is_inbound=True,
    )
    balance(listener, proxy)
    # A connection to this port itself would come back for ever.
    listener.filter_chains.append(_closed("virtualInbound-blackhole", port, model, proxy))
    listener.filter_chains.extend(
        _closed(f"virtualInbound-blackhole-{each}", each, model, proxy) for each in inbound.closed
    )
    for other in inbound.others:
        listener.filter_chains.extend(
            _other_chain(other, each, model, settings) for each in other.kinds
        )
    for own in inbound.ports:
        if not own.bind:
            listener.filter_chains.extend(
                _own_chain(own, each, model, settings) for each in own.kinds
            )
    listener.listener_filters.append(original_destination())
    if inbound.keeps_source:
        listener.listener_filters.append(original_source())
    listener.listener_filters.extend(_inspectors(inbound))
    listener.listener_filters_timeout.CopyFrom(
        duration(model.mesh_config.protocol_detection_timeout)
    )
    listener.continue_on_listener_filters_timeout = True
    find_own_workload(listener, model.mesh_config, proxy, inbound=True)
    return listener


def _closed(
    name: str, port: int, model: MeshModel, proxy: ProxySettings
) -> listener_components_pb2.FilterChain:
    return _Chain(
        name=name,
        filter_chain_match=_Match(destination_port=wrappers_pb2.UInt32Value(value=port)),
        filters=[cluster_proxy(names.BLACK_HOLE, model, proxy, inbound=True)],
    )


def bound_inbound(
    port: RedirectedPort,
    model: MeshModel,
    proxy: ProxySettings = NO_SETTINGS,
    policies: InboundPolicies = NO_POLICIES,
) -> listener_pb2.Listener:
    """Make the listener of a port that the proxy binds, as its Sidecar says."""
    listener = listener_pb2.Listener(
        name=names.listener(port.bind, port.number),
        address=address(port.bind, port.number),
        traffic_direction=base_pb2.TrafficDirection.INBOUND,
        enable_reuse_port=wrappers_pb2.BoolValue(value=False),
        access_log=refused_connection_logs(model.mesh_config, proxy, inbound=True),
        listener_filters_timeout=duration(model.mesh_config.protocol_detection_timeout),
        continue_on_listener_filters_timeout=True,
    )
    balance(listener, proxy)
    filters = policy_filters(policies)
    settings = ManagerSettings(mesh=model.mesh_config, proxy=proxy, policies=filters)
    for each in port.kinds:
        chain = _own_chain(port, each, model, settings)
        chain.filter_chain_match.ClearField("destination_port")
        listener.filter_chains.append(chain)
    if needs_tls_inspector(port.kinds):
        listener.listener_filters.append(tls_inspector())
    if needs_http_inspector(port.kinds):
        listener.listener_filters.append(http_inspector())
    find_own_workload(listener, model.mesh_config, proxy, inbound=True)
    return listener


def _own_chain(
    port: RedirectedPort, kind: ChainKind, model: MeshModel, settings: ManagerSettings
) -> listener_components_pb2.FilterChain:
    name = names.listener(port.bind or "0.0.0.0", port.number)  # noqa: S104 - a name
    if kind.is_http:
        manager = inbound_manager(
            f"inbound_{name}",
            inbound_routes(port, model),
            settings,
            port=port.number,
            is_http2=port.protocol.is_http2,
            is_grpc_web=port.is_grpc_web,
        )
        before = settings.network_filters(port.number, Side.INBOUND, of_requests=True)
        return _chain(name, port.number, kind, [*before, manager], model, settings=settings)
    cluster = names.inbound_cluster(port.number)
    inner = [cluster_proxy(cluster, model, settings.proxy, inbound=True)]
    if port.protocol is Protocol.MONGO:
        inner.insert(0, mongo_statistics(cluster))
    filters = [*settings.network_filters(port.number, Side.INBOUND), *inner]
    return _chain(name, port.number, kind, filters, model, settings=settings)


def _other_chain(
    port: OtherPort, kind: ChainKind, model: MeshModel, settings: ManagerSettings
) -> listener_components_pb2.FilterChain:
    number = port.number or 0
    before = settings.network_filters(number, Side.INBOUND, of_requests=kind.is_http)
    if kind.is_http:
        name = "virtualInbound-catchall-http"
        routes = passthrough_routes(number)
        inner = inbound_manager("inbound_0.0.0.0_0", routes, settings, port=number)
    else:
        name = VIRTUAL_INBOUND
        inner = cluster_proxy(names.INBOUND_PASSTHROUGH, model, settings.proxy, inbound=True)
    filters = [*before, inner]
    return _chain(name, port.number, kind, filters, model, settings=settings)


def _chain(
    name: str,
    port: int | None,
    kind: ChainKind,
    filters: Sequence[listener_components_pb2.Filter],
    model: MeshModel,
    *,
    settings: ManagerSettings,
) -> listener_components_pb2.FilterChain:
    alpn = plain_http(settings.proxy) if kind.alpn == PLAIN_HTTP else kind.alpn
    match = _Match(transport_protocol=kind.transport, application_protocols=alpn)
    if port is not None:
        match.destination_port.CopyFrom(wrappers_pb2.UInt32Value(value=port))
    chain = _Chain(name=name, filter_chain_match=match, filters=filters)
    if kind.ends_tls:
        socket = tls.server_socket(
            trust_domains=model.trust_domains, http=True, settings=model.mesh_config.mesh_mtls
        )
        chain.transport_socket.CopyFrom(socket)
    return chain


def _inspectors(inbound: RedirectedInbound) -> list[listener_components_pb2.ListenerFilter]:
    """Return the filters that look at first bytes, each off on the ports that do without it.

    There, a client that waits for the server to speak first is not waited for in vain.
    """
    rest, *named = [(each.number, each.kinds) for each in inbound.others]
    own = [(each.number, each.kinds) for each in inbound.ports if not each.bind]
    single = [*named, *own]
    found = []
    for needs, make in (
        (needs_tls_inspector, tls_inspector),
        (needs_http_inspector, http_inspector),
    ):
        needing = [number for number, kinds in single if number is not None and needs(kinds)]
        others = [number for number, kinds in single if number is not None and not needs(kinds)]
        if needs(rest[1]):
            found.append(make(off=Ports(others)))
        elif needing:
            found.append(make(off=Ports(needing, inverted=True)))
    return found
