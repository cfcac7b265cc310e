"""Patches of listeners: of their chains and filters, and of the routes that stand in them."""

from collections.abc import Iterator

from envoy_config.generate._messages import base_pb2
from envoy_config.patch._failures import PatchError
from envoy_config.patch._filters import (
    Chain,
    Listener,
    Manager,
    each_manager,
    patch_http_filters,
    patch_listener_filters,
    patch_network_filters,
)
from envoy_config.patch._merging import merge, merge_filter
from envoy_config.patch._routes import RouteSide, patch_routes, route_stage
from envoy_config.plan.policies._patches import Patch
from istio_config.kinds.envoy_filter import (
    OF_ROUTES,
    ApplyTo,
    Context,
    FilterChainMatch,
    ListenerMatch,
    Operation,
)

_PLAINTEXT = "envoy.transport_sockets.raw_buffer"
_VIRTUAL = ("virtualInbound", "virtualOutbound")
"""Listeners for all ports: the port is one of the chain's matches there."""
_ORDER = (
    ApplyTo.LISTENER,
    ApplyTo.LISTENER_FILTER,
    ApplyTo.FILTER_CHAIN,
    ApplyTo.NETWORK_FILTER,
    ApplyTo.HTTP_FILTER,
)
_CHAIN_ADDS, _ROUTES = 100, 200


def side_of_listener(listener: Listener, *, at_gateway: bool) -> Context:
    """Return the side of a listener: of a gateway, or of a sidecar's calls in or out."""
    if at_gateway:
        return Context.GATEWAY
    inbound = listener.traffic_direction == base_pb2.TrafficDirection.INBOUND
    return Context.SIDECAR_INBOUND if inbound else Context.SIDECAR_OUTBOUND


def listener_stage(patch: Patch) -> int:
    """Return the place of a patch in the order of work on a listener."""
    if patch.apply_to in OF_ROUTES:
        return _ROUTES + route_stage(patch)
    if patch.apply_to is ApplyTo.FILTER_CHAIN and patch.adds:
        return _CHAIN_ADDS
    stage = 2 * _ORDER.index(patch.apply_to)
    # Filters of chains are put in their places before they are merged into.
    late = patch.apply_to in (ApplyTo.NETWORK_FILTER, ApplyTo.HTTP_FILTER)
    return stage + (late and patch.operation.is_merge)


def patch_listener(  # noqa: PLR0911 - one for each sort of objects
    listener: Listener, patch: Patch, side: RouteSide
) -> bool | None:
    """Apply a patch to a listener; tell whether it was for something in it.

    None if it removes the listener. Raises `PatchError`.
    """
    if not patch.is_for(side.context):
        return False
    if patch.apply_to in OF_ROUTES:

        def change(manager: Manager) -> bool:
            return manager.HasField("route_config") and patch_routes(
                manager.route_config, patch, side
            )

        found = [each_manager(each, change) for each in _all_chains(listener)]
        return any(found)
    if not _is_listener(listener, patch):
        return False
    match patch.apply_to:
        case ApplyTo.LISTENER:
            return _patch_whole(listener, patch)
        case ApplyTo.LISTENER_FILTER:
            return patch_listener_filters(listener, patch)
        case ApplyTo.FILTER_CHAIN if patch.adds:
            return _add_chain(listener, patch)
        case ApplyTo.FILTER_CHAIN:
            return _patch_chains(listener, patch)
        case ApplyTo.NETWORK_FILTER:
            found = [patch_network_filters(each, patch) for each in _chains(listener, patch)]
        case _:
            found = [patch_http_filters(each, patch) for each in _chains(listener, patch)]
    return any(found)


def _patch_whole(listener: Listener, patch: Patch) -> bool | None:
    if patch.operation is Operation.REMOVE:
        return None
    if not patch.operation.is_merge:
        return False
    replaces = patch.operation is Operation.MERGE_AND_REPLACE_LIST
    merge(listener, patch.value, replaces_lists=replaces)
    return True


def _add_chain(listener: Listener, patch: Patch) -> bool:
    if isinstance(patch.value, Chain):
        listener.filter_chains.append(patch.value)
    return True


def _patch_chains(listener: Listener, patch: Patch) -> bool:
    if patch.operation is Operation.REMOVE:
        found = [
            index
            for index, each in enumerate(listener.filter_chains)
            if _is_chain(listener, each, patch.match.listener)
        ]
        for index in reversed(found):
            del listener.filter_chains[index]
        rest = list(_chains(listener, patch))  # the default chain, if it is one
        if rest:
            listener.ClearField("default_filter_chain")
        return bool(found or rest)
    changed = False
    for each in _chains(listener, patch):
        _merge_chain(each, patch)
        changed = True
    return changed


def _merge_chain(chain: Chain, patch: Patch) -> None:
    value = patch.value
    if not isinstance(value, Chain):
        return
    replaces = patch.operation is Operation.MERGE_AND_REPLACE_LIST
    rest = Chain()
    rest.CopyFrom(value)
    if value.HasField("transport_socket") and chain.HasField("transport_socket"):
        socket, wanted = chain.transport_socket, value.transport_socket.name
        if socket.name != wanted:
            raise PatchError(f"has the transport socket {wanted}, and the chain has {socket.name}")
        merge_filter(socket, value.transport_socket, replaces_lists=replaces)
        rest.ClearField("transport_socket")
    merge(chain, rest, replaces_lists=replaces)


def _is_listener(listener: Listener, patch: Patch) -> bool:
    wanted = patch.match.listener
    if wanted is None:
        return True
    if wanted.name and wanted.name != listener.name:
        return False
    if wanted.port_number is None:
        return True
    if listener.name in _VIRTUAL and patch.apply_to is not ApplyTo.LISTENER:
        return True  # compared with the ports of chains
    return wanted.port_number == listener.address.socket_address.port_value


def _all_chains(listener: Listener) -> Iterator[Chain]:
    yield from listener.filter_chains
    if listener.HasField("default_filter_chain"):
        yield listener.default_filter_chain


def _chains(listener: Listener, patch: Patch) -> Iterator[Chain]:
    wanted = patch.match.listener
    return (each for each in _all_chains(listener) if _is_chain(listener, each, wanted))


def _is_chain(listener: Listener, chain: Chain, wanted: ListenerMatch | None) -> bool:
    if wanted is None:
        return True
    port = chain.filter_chain_match.destination_port.value
    if listener.name in _VIRTUAL and wanted.port_number not in (None, port):
        return False
    inner = wanted.filter_chain
    return inner is None or _is_chain_matched(chain, inner)


def _transport_socket(chain: Chain) -> str:
    """Return the name of what reads the bytes of a chain; without one, they are plaintext."""
    return chain.transport_socket.name or _PLAINTEXT


def _is_chain_matched(chain: Chain, wanted: FilterChainMatch) -> bool:
    match = chain.filter_chain_match
    if wanted.name and wanted.name != chain.name:
        return False
    if wanted.sni and wanted.sni not in match.server_names:
        return False
    if wanted.transport_protocol and wanted.transport_protocol != match.transport_protocol:
        return False
    if wanted.transport_socket and wanted.transport_socket != _transport_socket(chain):
        return False
    protocols = [each.strip() for each in wanted.application_protocols.split(",") if each.strip()]
    if not set(protocols) <= set(match.application_protocols):
        return False
    return wanted.destination_port in (0, match.destination_port.value)
