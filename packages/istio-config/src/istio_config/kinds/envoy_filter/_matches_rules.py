"""The rules of matches: which go with which objects and operations.

Source: Istio's API, networking/v1alpha3, and its validation.
"""

from collections.abc import Iterator

from istio_config.kinds._regular_expressions import regex_mistake
from istio_config.kinds.envoy_filter._matches import Context, FilterMatch, ObjectMatch
from istio_config.kinds.envoy_filter._patches import (
    OF_LISTENERS,
    OF_ROUTES,
    ApplyTo,
    ConfigPatch,
    Operation,
    is_deprecated_name,
)
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

HTTP_CONNECTION_MANAGER = "envoy.filters.network.http_connection_manager"
MOST_VERSION_BYTES = 1024
"""Longer expressions for a version match no proxy, as in Istio."""
_LARGEST_VERSION = 1000
"""Instructions of the program, as the control plane itself compiles it, for each proxy."""


def match_mistakes(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with the match of a patch."""
    match = patch.match
    if (match.waypoint is not None) is not (match.context is Context.WAYPOINT):
        yield (*path, "waypoint"), "stands with context: WAYPOINT, and with no other"
    if match.proxy is not None and 0 < len(match.proxy.proxy_version) <= MOST_VERSION_BYTES:
        wrong = regex_mistake(match.proxy.proxy_version, most_instructions=_LARGEST_VERSION)
        if wrong is not None:
            yield (*path, "proxy", "proxyVersion"), wrong
    yield from _object_mistakes(patch.apply_to, match, path)
    if patch.apply_to not in OF_LISTENERS or match.context is Context.WAYPOINT:
        return
    listener = match.listener
    chain = listener.filter_chain if listener is not None else None
    network = chain.filter if chain is not None else None
    here = (*path, "listener", "filterChain", "filter")
    if network is not None:
        yield from _filter_mistakes(patch.apply_to, network, here)
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


def _object_mistakes(apply_to: ApplyTo, match: ObjectMatch, path: FieldPath) -> Iterator[Finding]:
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


def _filter_mistakes(apply_to: ApplyTo, network: FilterMatch, path: FieldPath) -> Iterator[Finding]:
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


def listener_match_warnings(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield the names in the match of a listener that nothing has."""
    listener = patch.match.listener
    if listener is None:
        return
    if listener.port_name:
        yield (*path, "portName"), "has no effect; match by portNumber or name"
    names: list[tuple[FieldPath, str]] = [((*path, "listenerFilter"), listener.listener_filter)]
    network = listener.filter_chain.filter if listener.filter_chain is not None else None
    if network is not None:
        here = (*path, "filterChain", "filter")
        names.append(((*here, "name"), network.name))
        if network.sub_filter is not None:
            names.append(((*here, "subFilter", "name"), network.sub_filter.name))
    for at, name in names:
        if is_deprecated_name(name):
            yield (
                at,
                f'"{name}" is a deprecated name and matches nothing; use envoy.filters...',
            )
        elif name.startswith("istio.") or name == "istio_authn":
            yield at, f'"{name}" is in Istio\'s Envoy alone: no filter here has this name'


def unused_match_warnings(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield the parts of a match that its operation does not look at."""
    match, adds = patch.match, patch.patch.operation is Operation.ADD
    inserts = adds or patch.patch.operation.is_insert
    listener, routes = match.listener, match.route_configuration
    chain = listener.filter_chain if listener is not None else None
    network = chain.filter if chain is not None else None
    if patch.apply_to is ApplyTo.LISTENER and inserts and listener is not None:
        yield (*path, "listener"), "has no effect: a listener is added to all proxies"
    elif patch.apply_to is ApplyTo.CLUSTER and inserts and match.cluster is not None:
        yield (*path, "cluster"), "has no effect: a cluster is added to all proxies"
    elif patch.apply_to in (ApplyTo.LISTENER, ApplyTo.LISTENER_FILTER) and network is not None:
        yield (*path, "listener", "filterChain", "filter"), f"has no effect on {patch.apply_to}"
    elif patch.apply_to is ApplyTo.FILTER_CHAIN and inserts and chain is not None:
        yield (*path, "listener", "filterChain"), "has no effect: a chain is added to listeners"
    elif patch.apply_to is ApplyTo.NETWORK_FILTER and adds and network is not None:
        yield (*path, "listener", "filterChain", "filter"), "has no effect: ADD puts a filter last"
    elif (
        patch.apply_to is ApplyTo.HTTP_FILTER
        and adds
        and network is not None
        and network.sub_filter is not None
    ):
        here = (*path, "listener", "filterChain", "filter", "subFilter")
        yield here, "has no effect: ADD puts a filter last"
    vhost = routes.vhost if routes is not None else None
    here = (*path, "routeConfiguration", "vhost")
    if vhost is not None and patch.apply_to is ApplyTo.ROUTE_CONFIGURATION:
        yield here, "has no effect on ROUTE_CONFIGURATION"
    elif vhost is not None and patch.apply_to is ApplyTo.VIRTUAL_HOST and inserts:
        yield here, "has no effect: a virtual host is added to route configurations"
    elif vhost is not None and vhost.route is not None:
        if patch.apply_to is ApplyTo.VIRTUAL_HOST:
            yield (*here, "route"), "has no effect on VIRTUAL_HOST"
        elif adds:
            yield (*here, "route"), "has no effect: ADD puts a route last"
