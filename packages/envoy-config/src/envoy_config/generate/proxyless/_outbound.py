"""A service's port as gRPC clients get it: an API listener, its route, cluster and endpoints.

Route, cluster and endpoints have the name of Envoy's cluster, as under Istio.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from envoy_config.generate._messages import (
    address,
    api_listener_pb2,
    base_pb2,
    cluster_pb2,
    endpoint_components_pb2,
    endpoint_pb2,
    from_ads,
    http_connection_manager_pb2,
    listener_pb2,
    packed,
    route_components_pb2,
    route_pb2,
    wrappers_pb2,
)
from envoy_config.generate.clusters._transport import expected_peers
from envoy_config.generate.proxyless._filters import client_filters
from envoy_config.generate.proxyless._policies import apply_policy
from envoy_config.generate.proxyless._routes import grpc_routes
from envoy_config.generate.proxyless._tls import client_socket
from envoy_config.plan._auto_mtls import proxyless_uses_mutual_tls, uses_mutual_tls
from envoy_config.plan._proxyless import Target
from istio_config.addresses import is_ip
from istio_config.kinds.destination_rule import ClientTlsMode
from mesh_model import Endpoint, MeshModel, Port

_MOST = 2**32 - 1


def api_listener(name: str, target: Target) -> listener_pb2.Listener:
    """Make the listener of a name that a client asked for."""
    manager = http_connection_manager_pb2.HttpConnectionManager(
        rds=http_connection_manager_pb2.Rds(
            config_source=from_ads(), route_config_name=target.cluster
        ),
        http_filters=client_filters(),
    )
    return listener_pb2.Listener(
        name=name, api_listener=api_listener_pb2.ApiListener(api_listener=packed(manager))
    )


def route_configuration(
    target: Target, routes: Sequence[route_components_pb2.Route] = ()
) -> route_pb2.RouteConfiguration:
    """Make the routes of a target, whatever authority the channel names.

    routes: those of Envoys by the VirtualService that applies to it; none: all methods go to it.
    """
    return route_pb2.RouteConfiguration(
        name=target.cluster,
        virtual_hosts=[
            route_components_pb2.VirtualHost(
                name=f"{target.service.host}:{target.port.number}",
                domains=["*"],
                routes=grpc_routes(routes) if routes else [_default_route(target)],
            )
        ],
    )


def _default_route(target: Target) -> route_components_pb2.Route:
    return route_components_pb2.Route(
        name="default",
        match=route_components_pb2.RouteMatch(prefix=""),
        route=route_components_pb2.RouteAction(
            cluster=target.cluster,
            # What gRPC knows of the retries that Envoys do (gRFC A44).
            retry_policy=route_components_pb2.RetryPolicy(
                retry_on="cancelled,unavailable",
                num_retries=wrappers_pb2.UInt32Value(value=2),
            ),
        ),
    )


def cluster(target: Target, model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of a target, with one transport socket for all of its endpoints."""
    service, port, name = target.service, target.port, target.cluster
    message = cluster_pb2.Cluster(name=name)
    apply_policy(message, target.policy)
    if not service.is_looked_up:
        message.type = cluster_pb2.Cluster.DiscoveryType.EDS
        message.eds_cluster_config.CopyFrom(
            cluster_pb2.Cluster.EdsClusterConfig(eds_config=from_ads(), service_name=name)
        )
    else:
        # The one type of gRPC's that looks up names; it takes exactly one endpoint (gRFC A37).
        message.type = cluster_pb2.Cluster.DiscoveryType.LOGICAL_DNS
        (endpoint,) = service.endpoints
        message.load_assignment.CopyFrom(_looked_up(name, endpoint, port))
    if _uses_mutual_tls(target, model):
        tls = target.policy.tls
        peers = tls.subject_alt_names if tls is not None and tls.subject_alt_names else None
        message.transport_socket.CopyFrom(
            client_socket(peers if peers is not None else expected_peers(service, model))
        )
    return message


def _uses_mutual_tls(target: Target, model: MeshModel) -> bool:
    """Return whether clients speak mutual TLS: as the rule says, else as the endpoints demand."""
    tls = target.policy.tls
    if tls is None:
        return proxyless_uses_mutual_tls(target.service, target.port, model)
    return tls.mode is ClientTlsMode.ISTIO_MUTUAL


def load_assignment(target: Target, model: MeshModel) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the endpoints of a target: those that speak as the cluster does, by IP address.

    gRPC refuses an address that stands twice, and balances by the weights of localities only: so
    endpoints of a locality that differ in weight are localities of their own.
    """
    port = target.port
    demanded = target.policy.tls is None and proxyless_uses_mutual_tls(target.service, port, model)
    usable = (
        each
        for each in target.endpoints
        if is_ip(each.address) and (not demanded or uses_mutual_tls(each, port, model))
    )
    weights: dict[tuple[str, int], tuple[str, int]] = {}
    for each in usable:
        place = each.address, each.port_for(port)
        locality, weight = weights.get(place, (each.locality, 0))
        weights[place] = locality, weight + (each.weight or 1)
    groups: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for place, group in weights.items():
        groups.setdefault(group, []).append(place)
    total = sum(weight * len(places) for (_, weight), places in groups.items())
    divisor = max(1, -(-total // (_MOST - len(groups))))
    localities = groupby(sorted(groups), key=lambda group: group[0])
    return endpoint_pb2.ClusterLoadAssignment(
        cluster_name=target.cluster,
        endpoints=[
            _locality(
                locality,
                groups[locality, weight],
                weight=max(1, weight * len(groups[locality, weight]) // divisor),
                suffix=f"weight-{weight}" if index else "",
            )
            for locality, of_one in localities
            for index, (_, weight) in enumerate(of_one)
        ],
    )


def _locality(
    locality: str, places: Iterable[tuple[str, int]], *, weight: int, suffix: str
) -> endpoint_components_pb2.LocalityLbEndpoints:
    """Make a locality; gRPC refuses two of one name, so a suffix sets it apart from the first."""
    region, zone, sub_zone = (*locality.split("/", 2), "", "", "")[:3]
    return endpoint_components_pb2.LocalityLbEndpoints(
        locality=base_pb2.Locality(
            region=region, zone=zone, sub_zone="/".join(filter(None, (sub_zone, suffix)))
        ),
        lb_endpoints=[_endpoint(*place) for place in sorted(places)],
        load_balancing_weight=wrappers_pb2.UInt32Value(value=weight),
    )


def _looked_up(name: str, endpoint: Endpoint, port: Port) -> endpoint_pb2.ClusterLoadAssignment:
    lb_endpoint = _endpoint(endpoint.address, endpoint.port_for(port))
    return endpoint_pb2.ClusterLoadAssignment(
        cluster_name=name,
        endpoints=[endpoint_components_pb2.LocalityLbEndpoints(lb_endpoints=[lb_endpoint])],
    )


def _endpoint(host: str, port: int) -> endpoint_components_pb2.LbEndpoint:
    return endpoint_components_pb2.LbEndpoint(
        endpoint=endpoint_components_pb2.Endpoint(address=address(host, port))
    )
