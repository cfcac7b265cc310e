"""Route configurations: which cluster a request goes to, by its Host."""

from collections.abc import Iterable

from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds.mesh_config._spec import TrafficPolicyMode
from mesh_discovery.generate._messages import (
    duration,
    packed,
    previous_hosts_pb2,
    route_components_pb2,
    route_pb2,
    wrappers_pb2,
)
from mesh_discovery.generate._passthrough import MARK, mark_routes
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Port, Service
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._inbound import InboundPort

__all__ = ["http_proxy_routes", "inbound_routes", "port_routes", "service_routes"]

_RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
_FALSE = wrappers_pb2.BoolValue(value=False)


def port_routes(
    port_number: int,
    services: Iterable[Service],
    model: MeshModel,
    *,
    proxy_domain: str,
    captured: bool = False,
) -> route_pb2.RouteConfiguration:
    """Make the routes of the listener that all HTTP services on one port share.

    captured: for a captured proxy, which finds requests on ports of undeclared protocol too.
    """
    hosts = [
        (service, port, names.virtual_host_domains(service, port, proxy_domain))
        for service in services
        for port in service.ports
        if port.number == port_number
        and (port.protocol.is_http or (captured and port.protocol is Protocol.AUTO))
    ]
    return _outbound(str(port_number), hosts, model, captured=captured)


def service_routes(service: Service, port: Port) -> route_pb2.RouteConfiguration:
    """Make the routes of a port of undeclared protocol at a service's own address."""
    name = f"{service.host}:{port.number}"
    return route_pb2.RouteConfiguration(
        name=name,
        virtual_hosts=[
            route_components_pb2.VirtualHost(
                name=name,
                domains=["*"],
                routes=[_to_cluster(names.outbound_cluster(service, port), retry=True)],
                include_request_attempt_count=True,
            )
        ],
        validate_clusters=_FALSE,
    )


def http_proxy_routes(
    services: Iterable[Service], model: MeshModel, *, proxy_domain: str
) -> route_pb2.RouteConfiguration:
    """Make the routes of the HTTP proxy: a host without port means its port 80.

    A client of a proxy leaves out the default port, so without one no other port can be meant.
    """
    hosts = [
        (
            service,
            port,
            tuple(
                domain
                for domain in names.virtual_host_domains(service, port, proxy_domain)
                if port.number == 80 or domain.endswith(f":{port.number}")
            ),
        )
        for service in services
        for port in service.ports
        if port.protocol.is_http
    ]
    return _outbound(names.HTTP_PROXY_ROUTE, hosts, model)


def inbound_routes(port: InboundPort) -> route_pb2.RouteConfiguration:
    """Make the one route of an inbound port, carried in its listener."""
    cluster = names.inbound_cluster(port.number)
    return route_pb2.RouteConfiguration(
        name=cluster,
        request_headers_to_remove=[MARK],
        virtual_hosts=[
            route_components_pb2.VirtualHost(
                name=f"inbound|http|{port.service_port}",
                domains=["*"],
                routes=[_to_cluster(cluster, retry=False)],
            )
        ],
        validate_clusters=_FALSE,
    )


def _outbound(
    name: str,
    hosts: Iterable[tuple[Service, Port, tuple[str, ...]]],
    model: MeshModel,
    *,
    captured: bool = False,
) -> route_pb2.RouteConfiguration:
    taken: set[str] = set()
    virtual_hosts = []
    for service, port, domains in hosts:
        # Envoy refuses a whole configuration in which a domain stands twice: the older keeps it.
        free = [domain for domain in dict.fromkeys(domains) if domain not in taken]
        if not free:
            continue
        taken.update(free)
        virtual_hosts.append(
            route_components_pb2.VirtualHost(
                name=f"{service.host}:{port.number}",
                domains=free,
                routes=[_to_cluster(names.outbound_cluster(service, port), retry=True)],
                include_request_attempt_count=True,
            )
        )
    virtual_hosts.append(_rest(model, captured=captured))
    return route_pb2.RouteConfiguration(
        name=name, virtual_hosts=virtual_hosts, validate_clusters=_FALSE
    )


def _rest(model: MeshModel, *, captured: bool) -> route_components_pb2.VirtualHost:
    """Make the virtual host of hosts that the mesh does not know."""
    onward = _to_cluster(names.PASSTHROUGH, retry=False, name="allow_any")
    if model.mesh_config.outbound_traffic_policy.mode is TrafficPolicyMode.ALLOW_ANY:
        return route_components_pb2.VirtualHost(
            name="allow_any",
            domains=["*"],
            # Where a connection was going, the mesh's own proxies don't come round again.
            routes=[onward] if captured else mark_routes(onward),
            include_request_attempt_count=True,
        )
    return route_components_pb2.VirtualHost(
        name="block_all",
        domains=["*"],
        routes=[
            route_components_pb2.Route(
                name="block_all",
                match=route_components_pb2.RouteMatch(prefix="/"),
                direct_response=route_components_pb2.DirectResponseAction(status=502),
            )
        ],
        include_request_attempt_count=True,
    )


def _to_cluster(cluster: str, *, retry: bool, name: str = "default") -> route_components_pb2.Route:
    action = route_components_pb2.RouteAction(cluster=cluster, timeout=duration(0))
    action.max_stream_duration.max_stream_duration.CopyFrom(duration(0))
    if retry:
        action.retry_policy.CopyFrom(
            route_components_pb2.RetryPolicy(
                retry_on=_RETRY_ON,
                num_retries=wrappers_pb2.UInt32Value(value=2),
                retriable_status_codes=[503],
                host_selection_retry_max_attempts=5,
                retry_host_predicate=[
                    route_components_pb2.RetryPolicy.RetryHostPredicate(
                        name="envoy.retry_host_predicates.previous_hosts",
                        typed_config=packed(previous_hosts_pb2.PreviousHostsPredicate()),
                    )
                ],
            )
        )
    return route_components_pb2.Route(
        name=name, match=route_components_pb2.RouteMatch(prefix="/"), route=action
    )
