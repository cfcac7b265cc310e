"""EnvoyFilter: patches of the configuration of some proxies, in terms of Envoy's own API.

Source: Istio's API, networking/v1alpha3, and its validation.
"""

from collections.abc import Iterator

from istio_config.addresses import is_ip
from istio_config.kinds._extras import of_extra
from istio_config.kinds.envoy_filter._matches import Context
from istio_config.kinds.envoy_filter._matches_rules import (
    MOST_VERSION_BYTES,
    listener_match_warnings,
    match_mistakes,
    unused_match_warnings,
)
from istio_config.kinds.envoy_filter._patches import (
    OPERATIONS,
    ApplyTo,
    ConfigPatch,
    FilterClass,
    Operation,
    is_deprecated_name,
)
from istio_config.kinds.envoy_filter._private_filters import has_private_parts, private_parts
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import (
    Selection,
    TargetRef,
    selection_by,
    selection_mistakes,
    selection_warnings,
)
from istio_config.kinds.service_entry import Selector
from istio_config.proxy_ports import PROXY_PORTS, may_be_own_machine
from mesh_configfile import FieldPath, Value
from mesh_configfile.shapes import Finding

_FILTERS = frozenset({ApplyTo.LISTENER_FILTER, ApplyTo.NETWORK_FILTER, ApplyTo.HTTP_FILTER})


class EnvoyFilterSpec(SpecFields, frozen=True):
    """Patches for the proxies of some workloads."""

    workload_selector: Selector | None = None
    target_refs: tuple[TargetRef, ...] = ()
    config_patches: tuple[ConfigPatch, ...] = ()
    priority: int = 0
    """Patches of a lower number come first."""

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        labels = self.workload_selector.labels if self.workload_selector is not None else {}
        return selection_by(labels, self.target_refs)


def _mistakes(spec: EnvoyFilterSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with an EnvoyFilter; paths start below its spec."""
    yield from selection_mistakes(
        spec.workload_selector.labels if spec.workload_selector is not None else None,
        spec.target_refs,
        metadata.namespace,
        path=("workloadSelector", "labels"),
    )
    for index, each in enumerate(spec.config_patches):
        yield from _patch_mistakes(each, ("configPatches", index))


def _warnings(spec: EnvoyFilterSpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and probably not meant."""
    yield (
        (),
        (
            "patches configuration of Envoy as this version makes it, which is no stable API: "
            "look at the patches again after an upgrade"
        ),
    )
    yield from selection_warnings(spec.target_refs)
    if spec.workload_selector is not None and not spec.workload_selector.labels:
        yield ("workloadSelector",), "has no labels: it is for all workloads of the namespace"
    if not spec.config_patches:
        yield (), "has no configPatches: it changes nothing"
    for index, each in enumerate(spec.config_patches):
        yield from _patch_warnings(each, ("configPatches", index))


def _lacks(spec: EnvoyFilterSpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is valid and not supported."""
    for index, each in enumerate(spec.config_patches):
        path = ("configPatches", index)
        if each.apply_to is ApplyTo.BOOTSTRAP:
            yield (*path, "applyTo"), "BOOTSTRAP is not supported yet"
        if each.patch.filter_class is not FilterClass.UNSPECIFIED:
            yield (*path, "patch", "filterClass"), "filterClass is not supported yet"


def _patch_mistakes(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a patch; its value is compared with Envoy's API."""
    change, operation = patch.patch, patch.patch.operation
    allowed = OPERATIONS[patch.apply_to]
    if operation not in allowed:
        names = ", ".join(each for each in Operation if each in allowed)
        yield (
            (*path, "patch", "operation"),
            f"{operation} has no meaning for {patch.apply_to}; use one of {names}",
        )
    yield from match_mistakes(patch, (*path, "match"))
    if operation is Operation.REMOVE:
        return
    if change.value is None:
        yield (*path, "patch"), f"the field value is missing; {operation} needs it"
    elif not has_private_parts(change.value):
        with of_extra("envoy-filters"):
            from istio_config.kinds.envoy_filter.values import value_mistakes
        yield from value_mistakes(patch, (*path, "patch", "value"))


def _patch_warnings(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield what is probably not meant in a patch, and why it would be dropped."""
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
    if isinstance(name, str) and is_deprecated_name(name):
        yield (*here, "name"), f'"{name}" is a deprecated name; filters are called envoy.filters...'
    for at, port in _own_page_addresses(value, here):
        yield (
            at,
            (
                f"leads to {PROXY_PORTS[port]}, which answers the machine itself only: a client "
                "that is led there can do what the machine may"
            ),
        )
    match = patch.match
    if match.context is Context.WAYPOINT:
        yield (*path, "match", "context"), "is for waypoints, which are not supported: no effect"
    if match.proxy is not None and len(match.proxy.proxy_version) > MOST_VERSION_BYTES:
        yield (
            (*path, "match", "proxy", "proxyVersion"),
            f"is longer than {MOST_VERSION_BYTES} bytes: it matches no proxy",
        )
    yield from listener_match_warnings(patch, (*path, "match", "listener"))
    yield from unused_match_warnings(patch, (*path, "match"))


def _has_config(value: Value) -> bool:
    """Return whether the value of a filter has a configuration, or says where to get it."""
    names = ("typed_config", "typedConfig", "config_discovery", "configDiscovery")
    return isinstance(value, dict) and any(value.get(each) is not None for each in names)


def _own_page_addresses(value: Value, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    """Yield the addresses in a value at which proxies have their admin pages, or their agents."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _own_page_addresses(each, (*path, index))
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
        yield from _own_page_addresses(each, (*path, name))


ENVOY_FILTER = Kind(
    name="EnvoyFilter",
    group="networking.istio.io",
    versions=("v1alpha3",),
    spec=EnvoyFilterSpec,
    validate=_mistakes,
    warn=_warnings,
    lacks=_lacks,
    stops_itself=True,
)
