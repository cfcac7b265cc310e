"""The value of a patch as a message of Envoy's API."""

from collections.abc import Iterator, Mapping

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from istio_config.envoy_api import (
    TYPED_STRUCTS,
    constraint_mistakes,
    find_type,
    message_differences,
    message_of,
)
from istio_config.kinds.envoy_filter._patches import ApplyTo, ConfigPatch
from istio_config.type_urls import type_in
from mesh_configfile import FieldPath, Value
from mesh_configfile.shapes import Finding

_HTTP = "envoy.extensions.filters.network.http_connection_manager.v3"
_TYPES: Mapping[ApplyTo, str] = {
    ApplyTo.LISTENER: "envoy.config.listener.v3.Listener",
    ApplyTo.LISTENER_FILTER: "envoy.config.listener.v3.ListenerFilter",
    ApplyTo.FILTER_CHAIN: "envoy.config.listener.v3.FilterChain",
    ApplyTo.NETWORK_FILTER: "envoy.config.listener.v3.Filter",
    ApplyTo.HTTP_FILTER: f"{_HTTP}.HttpFilter",
    ApplyTo.ROUTE_CONFIGURATION: "envoy.config.route.v3.RouteConfiguration",
    ApplyTo.VIRTUAL_HOST: "envoy.config.route.v3.VirtualHost",
    ApplyTo.HTTP_ROUTE: "envoy.config.route.v3.Route",
    ApplyTo.CLUSTER: "envoy.config.cluster.v3.Cluster",
    ApplyTo.EXTENSION_CONFIG: "envoy.config.core.v3.TypedExtensionConfig",
    ApplyTo.BOOTSTRAP: "envoy.config.bootstrap.v3.Bootstrap",
}
_FILTER_PACKAGES: Mapping[ApplyTo, str] = {
    ApplyTo.LISTENER_FILTER: "envoy.extensions.filters.listener.",
    ApplyTo.NETWORK_FILTER: "envoy.extensions.filters.network.",
    ApplyTo.HTTP_FILTER: "envoy.extensions.filters.http.",
}
"""The packages that the configurations of filters are in."""
_MATCHED = "envoy.extensions.common.matching.v3.ExtensionWithMatcher"
"""A filter of any sort that is chosen by a matcher."""


def value_type(apply_to: ApplyTo) -> Descriptor:
    """Return the type of the values of patches for these objects."""
    found = find_type(_TYPES[apply_to])
    if found is None:
        raise LookupError(f"xds-protos has no {_TYPES[apply_to]}")
    return found


def value_of(patch: ConfigPatch) -> Message:
    """Return the value of a valid patch; an empty message if it has none."""
    return message_of(patch.patch.value or {}, value_type(patch.apply_to))


def value_mistakes(patch: ConfigPatch, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with the value of a patch; path: that of the value."""
    value = patch.patch.value
    descriptor = value_type(patch.apply_to)
    found = list(message_differences(value, descriptor, path))
    yield from found
    if found:
        return
    try:
        message = message_of(value, descriptor)
    except ValueError as error:
        yield path, str(error)
        return
    config = typed_config(value)
    if config is not None and (wrong := _sort_mistake(patch.apply_to, config)) is not None:
        yield (*path, "typed_config" if "typed_config" in value else "typedConfig"), wrong
    if patch.patch.operation.is_merge:
        return  # it may leave out anything
    for inner, text in constraint_mistakes(message):
        if patch.apply_to in _FILTER_PACKAGES and inner == ("typed_config",):
            continue  # a warning, as in Istio
        yield (*path, *_as_spelt(inner, value)), text


def _sort_mistake(apply_to: ApplyTo, config: Mapping[str, Value]) -> str | None:
    """Return that a configuration is for another sort of filters than `applyTo`, or None."""
    package = _FILTER_PACKAGES.get(apply_to)
    name = type_in(str(config.get("@type")))
    if name in TYPED_STRUCTS:
        name = type_in(str(config.get("type_url", config.get("typeUrl"))))
    if (
        package is None
        or name == _MATCHED
        or (name.startswith(package) and not name.rpartition(".")[2].endswith("PerRoute"))
    ):
        return None
    return f"{name} is not for {apply_to}: such configurations are in {package.removesuffix('.')}"


def _as_spelt(path: FieldPath, value: Value) -> FieldPath:
    """Return a path of fields with their names as the value has them."""
    found: list[str | int] = []
    for each in path:
        key = each
        if isinstance(value, dict) and isinstance(each, str) and each not in value:
            words = each.split("_")
            key = words[0] + "".join(word.capitalize() for word in words[1:])
            if key not in value:
                return (*found, each)
        found.append(key)
        if isinstance(value, dict):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return tuple(found)


def typed_config(value: Value) -> Mapping[str, Value] | None:
    """Return the configuration in the value of a filter, if it has one."""
    if not isinstance(value, dict):
        return None
    found = value.get("typed_config", value.get("typedConfig"))
    return found if isinstance(found, dict) else None
