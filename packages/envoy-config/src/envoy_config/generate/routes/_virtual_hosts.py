"""Virtual hosts and route configurations, put together of parts that are serialised once.

A message's bytes are those of its fields one after the other, so the routes of a VirtualService are
serialised once for all its hosts, and a virtual host once for all configurations that have it.
"""

from collections.abc import Iterable

from envoy_config.generate._messages import duration, route_components_pb2, route_pb2, wrappers_pb2
from envoy_config.generate._passthrough import mark_routes
from envoy_config.plan import _envoy_names as names

_FALSE = wrappers_pb2.BoolValue(value=False)
_VIRTUAL_HOST_FIELD = bytes([route_pb2.RouteConfiguration.VIRTUAL_HOSTS_FIELD_NUMBER << 3 | 2])
_MOST_BODY_BYTES = 1024 * 1024

CONFIGURATION_TYPE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"


def packed_routes(routes: Iterable[route_components_pb2.Route]) -> bytes:
    """Serialise routes, as a part of any virtual host."""
    return _packed(route_components_pb2.VirtualHost(routes=routes))


def packed_names(name: str, domains: Iterable[str]) -> bytes:
    """Serialise the name and the domains of a virtual host."""
    return _packed(route_components_pb2.VirtualHost(name=name, domains=domains))


def packed_settings(*, counts_attempts: bool, needs_tls: bool = False) -> bytes:
    """Serialise the settings of a virtual host.

    counts_attempts: upstreams are sent how often a request was tried. needs_tls: clients of plain
    HTTP are redirected to HTTPS.
    """
    settings = route_components_pb2.VirtualHost(include_request_attempt_count=counts_attempts)
    if needs_tls:
        settings.require_tls = route_components_pb2.VirtualHost.TlsRequirementType.ALL
    return _packed(settings)


_USUAL_SETTINGS = route_components_pb2.VirtualHost(
    include_request_attempt_count=True
).SerializeToString()


def virtual_host(
    name_and_domains: bytes, routes: bytes, settings: bytes = _USUAL_SETTINGS
) -> bytes:
    """Return a virtual host, as a part of any route configuration."""
    size = len(name_and_domains) + len(routes) + len(settings)
    return b"".join((_VIRTUAL_HOST_FIELD, _varint(size), name_and_domains, routes, settings))


def route_configuration(
    name: str, virtual_hosts: Iterable[bytes], *, ignores_ports: bool = True
) -> bytes:
    """Return a route configuration of virtual hosts, serialised.

    ignores_ports: whether the port in a Host header means nothing.
    """
    configuration = route_pb2.RouteConfiguration(
        name=name,
        validate_clusters=_FALSE,
        max_direct_response_body_size_bytes=wrappers_pb2.UInt32Value(value=_MOST_BODY_BYTES),
        ignore_port_in_host_matching=ignores_ports,
    )
    return b"".join((_packed(configuration), *virtual_hosts))


def unknown_hosts(
    cluster: str | None,
    *,
    redirected: bool,
    forwards_host: bool = False,
    settings: bytes = _USUAL_SETTINGS,
) -> bytes:
    """Return the virtual host of unknown hosts; without a cluster, they are refused."""
    if cluster is not None:
        onward = onward_route(cluster, name="allow_any")
        onward.route.append_x_forwarded_host = forwards_host
        # Where a connection was going, the mesh's own proxies don't come round again.
        marked = cluster == names.DYNAMIC_DNS or (cluster == names.PASSTHROUGH and not redirected)
        routes = mark_routes(onward) if marked else [onward]
        return virtual_host(packed_names("allow_any", ["*"]), packed_routes(routes), settings)
    refused = route_components_pb2.Route(
        name="block_all",
        match=route_components_pb2.RouteMatch(prefix="/"),
        direct_response=route_components_pb2.DirectResponseAction(status=502),
    )
    return virtual_host(packed_names("block_all", ["*"]), packed_routes([refused]), settings)


def onward_route(cluster: str, *, name: str = "default") -> route_components_pb2.Route:
    """Make a route of all requests to a cluster, without time limit and without retries."""
    action = route_components_pb2.RouteAction(cluster=cluster, timeout=duration(0))
    action.max_stream_duration.grpc_timeout_header_max.CopyFrom(duration(0))
    return route_components_pb2.Route(
        name=name, match=route_components_pb2.RouteMatch(prefix="/"), route=action
    )


def _packed(message: route_components_pb2.VirtualHost | route_pb2.RouteConfiguration) -> bytes:
    return message.SerializeToString(deterministic=True)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
