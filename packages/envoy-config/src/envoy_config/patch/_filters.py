"""Patches of filters: of listeners, of connections, and of HTTP connection managers."""

from collections.abc import Callable, MutableSequence

from envoy_config.generate._messages import (
    http_connection_manager_pb2,
    listener_components_pb2,
    listener_pb2,
)
from envoy_config.patch._lists import edit
from envoy_config.patch._merging import Configured, merge_filter, same_config_type
from envoy_config.plan.policies._patches import Patch
from istio_config.envoy_api import type_in
from istio_config.kinds.envoy_filter import FilterMatch, ListenerMatch, Operation

Listener = listener_pb2.Listener
Chain = listener_components_pb2.FilterChain
Filter = listener_components_pb2.Filter
Manager = http_connection_manager_pb2.HttpConnectionManager
_MANAGER = Manager.DESCRIPTOR.full_name


def patch_listener_filters(listener: Listener, patch: Patch) -> bool:
    """Apply a patch to the filters that look at a connection before its chain is chosen."""
    name = patch.match.listener.listener_filter if patch.match.listener is not None else ""
    return _patch_filters(listener.listener_filters, patch, name)


def patch_network_filters(chain: Chain, patch: Patch) -> bool:
    """Apply a patch to the filters of a chain."""
    wanted = network_filter_match(patch.match.listener)
    return _patch_filters(chain.filters, patch, wanted.name if wanted is not None else "")


def patch_http_filters(chain: Chain, patch: Patch) -> bool:
    """Apply a patch to the HTTP filters of a chain's connection managers."""
    wanted = network_filter_match(patch.match.listener)
    inner = wanted.sub_filter.name if wanted is not None and wanted.sub_filter is not None else ""
    return each_manager(
        chain,
        lambda manager: _patch_filters(manager.http_filters, patch, inner),
        name=wanted.name if wanted is not None else "",
    )


def each_manager(chain: Chain, change: Callable[[Manager], bool], *, name: str = "") -> bool:
    """Change the connection managers of a chain; tell whether one was changed.

    name: of the filter; empty for any.
    """
    changed = False
    for each in chain.filters:
        if name in ("", each.name) and type_in(each.typed_config.type_url) == _MANAGER:
            manager = Manager.FromString(each.typed_config.value)
            if change(manager):
                each.typed_config.value = manager.SerializeToString(deterministic=True)
                changed = True
    return changed


def network_filter_match(wanted: ListenerMatch | None) -> FilterMatch | None:
    """Return the match of network filters in one of listeners."""
    chain = wanted.filter_chain if wanted is not None else None
    return chain.filter if chain is not None else None


def _patch_filters(filters: MutableSequence[Configured], patch: Patch, name: str) -> bool:
    """Change a list of filters; name: of those that the patch is about, empty for any."""
    value: Configured = patch.value
    if not patch.operation.is_merge:
        matches = (lambda each: each.name == name) if name else None
        return edit(filters, patch.operation, value, matches=matches)
    replaces = patch.operation is Operation.MERGE_AND_REPLACE_LIST
    changed = False
    for each in filters:
        # Without a name, it is for filters with its sort of configuration.
        if each.name == name if name else same_config_type(each, value):
            merge_filter(each, value, replaces_lists=replaces)
            changed = True
    return changed
