"""Parts of EnvoyFilters that are accepted and hardly do what is meant, or are dropped."""

from collections.abc import Iterator

from istio_config.addresses import is_ip
from istio_config.kinds.envoy_filter._mistakes import MOST_VERSION_BYTES
from istio_config.kinds.envoy_filter._private_filters import private_parts
from istio_config.kinds.envoy_filter._spec import (
    ApplyTo,
    ConfigPatch,
    EnvoyFilterSpec,
    FilterClass,
    Operation,
)
from istio_config.kinds.metadata import Metadata
from istio_config.proxy_ports import PROXY_PORTS, may_be_own_machine
from mesh_configfile import FieldPath, Value
from mesh_configfile.shapes import Finding

_FILTERS = frozenset({ApplyTo.LISTENER_FILTER, ApplyTo.NETWORK_FILTER, ApplyTo.HTTP_FILTER})


def warnings(spec: EnvoyFilterSpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted as it is and hardly meant so."""
    yield (
        (),
        (
            "patches configuration of Envoy as this version makes it, which is no stable API: "
            "look at the patches again after an upgrade"
        ),
    )
    if spec.workload_selector is not None and not spec.workload_selector.labels:
        yield ("workloadSelector",), "has no labels: it is for all workloads of the namespace"
    if not spec.config_patches:
        yield (), "has no configPatches: it changes nothing"
    for index, each in enumerate(spec.config_patches):
        yield from _patch(each, ("configPatches", index))


def lacks(spec: EnvoyFilterSpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is valid and not supported."""
    for index, each in enumerate(spec.config_patches):
        path = ("configPatches", index)
        if each.apply_to is ApplyTo.BOOTSTRAP:
            yield (*path, "applyTo"), "BOOTSTRAP is not supported yet"
        if each.patch.filter_class is not FilterClass.UNSPECIFIED:
            yield (*path, "patch", "filterClass"), "filterClass is not supported yet"


def _patch(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    value = patch.patch.value
    here = (*path, "patch", "value")
    is_remove = patch.patch.operation is Operation.REMOVE
    if is_remove and value is not None:
        yield here, "has no effect: REMOVE takes none"
    private = None if is_remove else next(private_parts(value, here), None)
    if private is not None:
        yield private[0], f"{private[1]} is in Istio's Envoy alone: the patch is dropped"
    elif (
        patch.apply_to in _FILTERS
        and not is_remove
        and not patch.patch.operation.is_merge
        and not _has_config(value)
    ):
        yield here, "has no typed_config: Envoy takes no such filter, and the patch is left out"
    name = value.get("name") if isinstance(value, dict) and patch.apply_to in _FILTERS else None
    if isinstance(name, str) and _is_deprecated(name):
        yield (*here, "name"), f'"{name}" is a deprecated name; filters are called envoy.filters...'
    for place, port in _own_pages(value, here):
        yield (
            place,
            (
                f"leads to {PROXY_PORTS[port]}, which answers the machine itself only: a client "
                "that is led there can do what the machine may"
            ),
        )
    match = patch.match
    if match.proxy is not None and len(match.proxy.proxy_version) > MOST_VERSION_BYTES:
        yield (
            (*path, "match", "proxy", "proxyVersion"),
            f"is longer than {MOST_VERSION_BYTES} bytes: it matches no proxy",
        )
    yield from _listener_match(patch, (*path, "match", "listener"))
    yield from _without_effect(patch, (*path, "match"))


def _has_config(value: Value) -> bool:
    """Return whether the value of a filter has a configuration, or says where to get it."""
    names = ("typed_config", "typedConfig", "config_discovery", "configDiscovery")
    return isinstance(value, dict) and any(value.get(each) is not None for each in names)


def _own_pages(value: Value, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    """Yield the socket addresses in a value that are a proxy's own pages, or its agent's."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _own_pages(each, (*path, index))
        return
    if not isinstance(value, dict):
        return
    address = value.get("address")
    port = value.get("port_value", value.get("portValue"))
    if (
        isinstance(address, str)
        and isinstance(port, int)
        and port in PROXY_PORTS
        and (address == "localhost" or (is_ip(address) and may_be_own_machine(address)))
    ):
        yield path, port
    for name, each in value.items():
        yield from _own_pages(each, (*path, name))


def _listener_match(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
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
    for place, name in names:
        if _is_deprecated(name):
            yield (
                place,
                f'"{name}" is a deprecated name and matches nothing; use envoy.filters...',
            )
        elif name.startswith("istio.") or name == "istio_authn":
            yield place, f'"{name}" is in Istio\'s Envoy alone: no filter here has this name'


def _without_effect(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield matches of something that the patch does not look at."""
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


def _is_deprecated(name: str) -> bool:
    return name.startswith("envoy.") and not name.startswith("envoy.filters.")
