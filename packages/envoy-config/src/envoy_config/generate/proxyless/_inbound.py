"""The listener of an address that a gRPC server listens on: one filter chain (gRFC A36)."""

from envoy_config.generate._messages import (
    address,
    base_pb2,
    http_connection_manager_pb2,
    listener_components_pb2,
    listener_pb2,
    packed,
    route_components_pb2,
    route_pb2,
)
from envoy_config.generate.policies._authorization import http_filters
from envoy_config.generate.policies._custom import custom_http_filters
from envoy_config.generate.proxyless._filters import terminal_filters
from envoy_config.generate.proxyless._tls import server_socket
from envoy_config.plan._proxyless import Server
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies


def server_listener(
    name: str, server: Server, policies: InboundPolicies = NO_POLICIES
) -> listener_pb2.Listener:
    """Make the listener of a server; it has to name the address that the server listens on."""
    kind = "mtls" if server.uses_mutual_tls else "plaintext"
    chain = listener_components_pb2.FilterChain(
        name=f"inbound-{kind}",
        filters=[
            listener_components_pb2.Filter(
                name="envoy.filters.network.http_connection_manager",
                typed_config=packed(_manager(policies)),
            )
        ],
    )
    if server.uses_mutual_tls:
        chain.transport_socket.CopyFrom(server_socket())
    return listener_pb2.Listener(
        name=name,
        address=address(server.address, server.port),
        filter_chains=[chain],
        traffic_direction=base_pb2.TrafficDirection.INBOUND,
    )


def _manager(policies: InboundPolicies) -> http_connection_manager_pb2.HttpConnectionManager:
    """Make the connection manager: every method is the program's own to answer."""
    route = route_components_pb2.Route(
        match=route_components_pb2.RouteMatch(prefix="/"),
        non_forwarding_action=route_components_pb2.NonForwardingAction(),
    )
    return http_connection_manager_pb2.HttpConnectionManager(
        route_config=route_pb2.RouteConfiguration(
            name="inbound",
            virtual_hosts=[
                route_components_pb2.VirtualHost(name="inbound", domains=["*"], routes=[route])
            ],
        ),
        http_filters=[
            *custom_http_filters(policies.authorization, proxyless=True),
            *http_filters(policies.authorization, proxyless=True),
            *terminal_filters(),
        ],
    )
