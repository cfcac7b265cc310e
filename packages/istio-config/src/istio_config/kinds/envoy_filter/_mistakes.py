"""Validation of EnvoyFilters: the matches, and the values against Envoy's API."""

from collections.abc import Iterator, Mapping

from istio_config.kinds._extras import of_extra
from istio_config.kinds._regular_expressions import regex_mistake
from istio_config.kinds.envoy_filter._private_filters import has_private_parts
from istio_config.kinds.envoy_filter._spec import (
    ApplyTo,
    ConfigPatch,
    EnvoyFilterSpec,
    FilterMatch,
    ObjectMatch,
    Operation,
)
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import selection_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

HTTP_CONNECTION_MANAGER = "envoy.filters.network.http_connection_manager"
MOST_VERSION_BYTES = 1024
"""Longer expressions for versions match no proxy, as in Istio."""
_LARGEST_VERSION = 1000
"""Instructions; the control plane itself compiles them, for each proxy."""
OF_LISTENERS = frozenset(
    {
        ApplyTo.LISTENER,
        ApplyTo.LISTENER_FILTER,
        ApplyTo.FILTER_CHAIN,
        ApplyTo.NETWORK_FILTER,
        ApplyTo.HTTP_FILTER,
    }
)
OF_ROUTES = frozenset({ApplyTo.ROUTE_CONFIGURATION, ApplyTo.VIRTUAL_HOST, ApplyTo.HTTP_ROUTE})
_ADDS = frozenset({Operation.ADD, *(each for each in Operation if each.is_insert)})
_MERGES = frozenset({each for each in Operation if each.is_merge})
_REMOVE, _REPLACE = frozenset({Operation.REMOVE}), frozenset({Operation.REPLACE})
OPERATIONS: Mapping[ApplyTo, frozenset[Operation]] = {
    ApplyTo.LISTENER: _MERGES | _ADDS | _REMOVE,
    ApplyTo.LISTENER_FILTER: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.FILTER_CHAIN: _MERGES | _ADDS | _REMOVE,
    ApplyTo.NETWORK_FILTER: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.HTTP_FILTER: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.ROUTE_CONFIGURATION: _MERGES,
    ApplyTo.VIRTUAL_HOST: _MERGES | _ADDS | _REMOVE | _REPLACE,
    ApplyTo.HTTP_ROUTE: _MERGES | _ADDS | _REMOVE,
    ApplyTo.CLUSTER: _MERGES | _ADDS | _REMOVE,
    ApplyTo.EXTENSION_CONFIG: frozenset({Operation.ADD}),
    ApplyTo.BOOTSTRAP: _MERGES,
}
"""The operations that mean something for each sort of objects."""


def mistakes(spec: EnvoyFilterSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what must hold between the fields and does not."""
    yield from selection_mistakes(
        spec.workload_selector.labels if spec.workload_selector is not None else None,
        spec.target_refs,
        metadata.namespace,
        path=("workloadSelector", "labels"),
    )
    for index, each in enumerate(spec.config_patches):
        yield from _patch(each, ("configPatches", index))


def _patch(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    change, operation = patch.patch, patch.patch.operation
    allowed = OPERATIONS[patch.apply_to]
    if operation not in allowed:
        names = ", ".join(each for each in Operation if each in allowed)
        yield (
            (*path, "patch", "operation"),
            f"{operation} has no meaning for {patch.apply_to}; use one of {names}",
        )
    yield from _match(patch, (*path, "match"))
    if operation is Operation.REMOVE:
        return
    if change.value is None:
        yield (*path, "patch"), f"the field value is missing; {operation} needs it"
    elif not has_private_parts(change.value):
        with of_extra("envoy-filters"):
            from istio_config.kinds.envoy_filter.values import value_mistakes
        yield from value_mistakes(patch, (*path, "patch", "value"))


def _match(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    match = patch.match
    if match.proxy is not None and 0 < len(match.proxy.proxy_version) <= MOST_VERSION_BYTES:
        wrong = regex_mistake(match.proxy.proxy_version, most_instructions=_LARGEST_VERSION)
        if wrong is not None:
            yield (*path, "proxy", "proxyVersion"), wrong
    yield from _kind_of_match(patch.apply_to, match, path)
    if patch.apply_to not in OF_LISTENERS:
        return
    listener = match.listener
    chain = listener.filter_chain if listener is not None else None
    network = chain.filter if chain is not None else None
    here = (*path, "listener", "filterChain", "filter")
    if network is not None:
        yield from _filter_match(patch.apply_to, network, here)
    of_one = patch.patch.operation in (Operation.REMOVE, Operation.REPLACE)
    if (
        of_one
        and patch.apply_to is ApplyTo.NETWORK_FILTER
        and (network is None or not network.name)
    ):
        yield path, f"{patch.patch.operation} needs listener.filterChain.filter.name"
    if (
        of_one
        and patch.apply_to is ApplyTo.HTTP_FILTER
        and (network is None or network.sub_filter is None)
    ):
        yield path, f"{patch.patch.operation} needs listener.filterChain.filter.subFilter.name"
    by_name = of_one or patch.patch.operation.is_merge
    if (
        by_name
        and patch.apply_to is ApplyTo.LISTENER_FILTER
        and (listener is None or not listener.listener_filter)
    ):
        yield path, f"{patch.patch.operation} needs listener.listenerFilter, the name of a filter"


def _kind_of_match(apply_to: ApplyTo, match: ObjectMatch, path: FieldPath) -> Iterator[Finding]:
    fitting = "listener" if apply_to in OF_LISTENERS else ""
    fitting = "routeConfiguration" if apply_to in OF_ROUTES else fitting
    fitting = "cluster" if apply_to is ApplyTo.CLUSTER else fitting
    given = {
        "listener": match.listener,
        "routeConfiguration": match.route_configuration,
        "cluster": match.cluster,
    }
    for name, value in given.items():
        if value is not None and name != fitting:
            remedy = f"use {fitting}" if fitting else "remove it"
            yield (*path, name), f"does not go with applyTo: {apply_to}; {remedy}"


def _filter_match(apply_to: ApplyTo, network: FilterMatch, path: FieldPath) -> Iterator[Finding]:
    if not network.name:
        yield path, "the field name is missing; it has the name of a network filter"
    if network.sub_filter is None:
        return
    here = (*path, "subFilter")
    if apply_to is not ApplyTo.HTTP_FILTER:
        yield here, f"is for applyTo: HTTP_FILTER alone, found {apply_to}"
    elif network.name and network.name != HTTP_CONNECTION_MANAGER:
        yield (*path, "name"), f"must be {HTTP_CONNECTION_MANAGER}, which has the HTTP filters"
    if not network.sub_filter.name:
        yield here, "the field name is missing; it has the name of an HTTP filter"
