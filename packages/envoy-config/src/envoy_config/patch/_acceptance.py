"""Finds what Envoy refuses in patched resources, beside the constraints of its API.

A refused resource is not updated from then on, so that a patch is rather left out.
Seen with Envoy 1.36 and 1.40.
"""

from collections.abc import Iterable, Iterator

from envoy.extensions.filters.network.tcp_proxy.v3.tcp_proxy_pb2 import TcpProxy

from envoy_config.generate._messages import route_pb2
from envoy_config.patch._filters import Chain, Listener, Manager
from envoy_config.patch._listener_acceptance import address_mistakes, overlaps
from envoy_config.patch._log_acceptance import line_mistakes, log_mistakes
from envoy_config.patch._merging import Configured
from envoy_config.patch._route_acceptance import header_mistakes, table_mistakes
from envoy_config.patch._socket_acceptance import downstream_socket_mistakes, speaks_quic
from istio_config.envoy_api import constraint_mistakes, content_type, type_in
from istio_config.kinds.formats import OF_TAGS, format_mistake
from mesh_configfile import field_name

_NETWORK = "envoy.extensions.filters.network."
_LISTENER = "envoy.extensions.filters.listener."
_HTTP = "envoy.extensions.filters.http."
_TERMINAL_NETWORK = frozenset(
    f"{_NETWORK}{each}"
    for each in (
        "direct_response.v3.Config",
        "echo.v3.Echo",
        "generic_proxy.v3.GenericProxy",
        "http_connection_manager.v3.HttpConnectionManager",
        "redis_proxy.v3.RedisProxy",
        "tcp_proxy.v3.TcpProxy",
        "thrift_proxy.v3.ThriftProxy",
    )
)
_TERMINAL_HTTP = frozenset({f"{_HTTP}router.v3.Router"})
_MANAGER = Manager.DESCRIPTOR.full_name
_TCP_PROXY = TcpProxy.DESCRIPTOR.full_name


def listener_mistakes(listener: Listener) -> Iterator[str]:
    """Yield what Envoy refuses in a listener."""
    yield from broken_constraints(listener)
    if not listener.name:
        yield "the listener has no name"
    yield from address_mistakes(listener)
    chains = list(listener.filter_chains)
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    if not chains and not listener.HasField("udp_listener_config"):
        yield "the listener has no filter chains"
    if listener.HasField("api_listener"):
        yield "api_listener is for Envoys in applications alone"
    unbound = listener.HasField("bind_to_port") and not listener.bind_to_port.value
    if listener.transparent.value and unbound:
        yield "the listener is transparent and not bound to its port: Envoy crashes"
    yield from overlaps(listener.filter_chains)
    yield from _matcher_mistakes(listener)
    yield from _filter_mistakes(listener.listener_filters, None, _LISTENER)
    yield from log_mistakes(listener.access_log)
    for chain in chains:
        yield from _chain_mistakes(chain)


def route_mistakes(configuration: route_pb2.RouteConfiguration) -> Iterator[str]:
    """Yield what Envoy refuses in a route configuration."""
    yield from broken_constraints(configuration)
    yield from table_mistakes(configuration)


def broken_constraints(message: Configured) -> Iterator[str]:
    """Yield the constraints of Envoy's API that a message breaks, each with its place."""
    for path, text in constraint_mistakes(message):
        yield f"{field_name(path)}: {text}"


def _chain_mistakes(chain: Chain) -> Iterator[str]:
    if not chain.filters:
        yield "a filter chain has no filters"
        return
    yield from downstream_socket_mistakes(chain.transport_socket)
    yield from _filter_mistakes(chain.filters, _TERMINAL_NETWORK, _NETWORK)
    for each in chain.filters:
        if type_in(each.typed_config.type_url) == _TCP_PROXY:
            yield from _proxy_mistakes(TcpProxy.FromString(each.typed_config.value))
        if type_in(each.typed_config.type_url) == _MANAGER:
            manager = Manager.FromString(each.typed_config.value)
            if not manager.http_filters:
                yield "a connection manager has no HTTP filters"
            yield from _filter_mistakes(manager.http_filters, _TERMINAL_HTTP, _HTTP)
            yield from table_mistakes(manager.route_config)
            yield from _manager_mistakes(manager)
            if manager.codec_type == Manager.HTTP3 and not speaks_quic(chain.transport_socket):
                yield "a connection manager has the codec_type HTTP3, and the chain no QUIC"


def _proxy_mistakes(proxy: TcpProxy) -> Iterator[str]:
    yield from log_mistakes(proxy.access_log)
    yield from header_mistakes(proxy.tunneling_config)
    wrong = format_mistake(proxy.tunneling_config.hostname, OF_TAGS)
    if wrong is not None:
        yield f"the hostname of a tunnel {wrong}"


def _manager_mistakes(manager: Manager) -> Iterator[str]:
    yield from log_mistakes(manager.access_log)
    yield from line_mistakes(manager.local_reply_config.body_format)
    if manager.http_filters and manager.http_filters[-1].disabled:
        yield f"the last filter, {manager.http_filters[-1].name}, is disabled"
    for upgrade in manager.upgrade_configs:
        if upgrade.filters:
            yield from _filter_mistakes(upgrade.filters, _TERMINAL_HTTP, _HTTP)
    for mapper in manager.local_reply_config.mappers:
        yield from header_mistakes(mapper)
        yield from line_mistakes(mapper.body_format_override)


def _matcher_mistakes(listener: Listener) -> Iterator[str]:
    if listener.HasField("filter_chain_matcher"):
        names = [each.name for each in listener.filter_chains]
        if not all(names):
            yield "a filter chain has no name, which filter_chain_matcher needs"


def _filter_mistakes(
    filters: Iterable[Configured], terminal: frozenset[str] | None, package: str
) -> Iterator[str]:
    """terminal: the types of which the last one must be, and no other may be."""
    listed = list(filters)
    for index, each in enumerate(listed):
        is_last = index == len(listed) - 1
        if each.HasField("config_discovery"):
            if is_last and terminal is not None:
                yield f"the last filter, {each.name}, is not one that ends a chain"
            continue
        name = content_type(each.typed_config)
        if not name:
            yield f"the filter {each.name} has no typed_config"
        elif not name.startswith((package, "envoy.extensions.common.matching.")):
            yield f"the filter {each.name} has a {name}, which is no filter of its sort"
        elif terminal is None:
            continue
        elif is_last and name not in terminal:
            yield f"the last filter, {each.name}, is not one that ends a chain"
        elif not is_last and name in terminal:
            yield f"the filter {each.name} ends the chain, and {listed[index + 1].name} is after it"
