"""Finds what Envoy refuses in patched resources, beside the constraints of its API.

A refused resource is not updated from then on, so that a patch is rather left out.
Seen with Envoy 1.40.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TypeVar

from mesh_configfile import field_name
from mesh_discovery.envoy_api._constraints import constraint_mistakes
from mesh_discovery.envoy_api._message_types import content_type, type_in
from mesh_discovery.generate._messages import listener_components_pb2, route_pb2
from mesh_discovery.patch._filters import Chain, Listener, Manager
from mesh_discovery.patch._merging import Configured
from mesh_discovery.patch._route_acceptance import table_mistakes

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
_T = TypeVar("_T")


def listener_mistakes(listener: Listener) -> Iterator[str]:
    """Yield what Envoy refuses in a listener."""
    yield from broken_constraints(listener)
    if not listener.name:
        yield "the listener has no name"
    if not (listener.HasField("address") or listener.HasField("internal_listener")):
        yield "the listener has no address"
    chains = list(listener.filter_chains)
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    if not chains and not listener.HasField("udp_listener_config"):
        yield "the listener has no filter chains"
    unbound = listener.HasField("bind_to_port") and not listener.bind_to_port.value
    if listener.transparent.value and unbound:
        yield "the listener is transparent and not bound to its port: Envoy crashes"
    for each in _twice(key for chain in listener.filter_chains for key in _match_keys(chain)):
        yield f"two filter chains have the same match: {each}"
    yield from _filter_mistakes(listener.listener_filters, None, _LISTENER)
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
    yield from _filter_mistakes(chain.filters, _TERMINAL_NETWORK, _NETWORK)
    for each in chain.filters:
        if type_in(each.typed_config.type_url) == _MANAGER:
            manager = Manager.FromString(each.typed_config.value)
            if not manager.http_filters:
                yield "a connection manager has no HTTP filters"
            yield from _filter_mistakes(manager.http_filters, _TERMINAL_HTTP, _HTTP)
            yield from table_mistakes(manager.route_config)


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


def _match_keys(chain: listener_components_pb2.FilterChain) -> Iterator[str]:
    """Yield the single matches that a chain's match means: Envoy compares these."""
    match = listener_components_pb2.FilterChainMatch()
    match.CopyFrom(chain.filter_chain_match)
    servers, protocols = list(match.server_names) or [""], list(match.application_protocols) or [""]
    match.ClearField("server_names")
    match.ClearField("application_protocols")
    rest = " ".join(str(match).split())
    for server, protocol in product(servers, protocols):
        yield (
            " ".join(each for each in (rest, server.lower(), protocol) if each) or "any connection"
        )


def _twice(values: Iterable[_T]) -> list[_T]:
    return [each for each, count in Counter(values).items() if count > 1]
