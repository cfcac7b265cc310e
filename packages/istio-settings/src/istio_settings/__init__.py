"""Settings of an Istio installation for its proxies: variables, proxy configuration, pod, node.

Each value knows where it was given, and all mistakes are reported at once.

Names are loaded when they are first used: programs that start beside every workload need few.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from istio_settings._json import JSON
    from istio_settings._layers import (
        Layer,
        LayerError,
        LayerField,
        MeshFile,
        mesh_file,
        mesh_layer,
        parse_layer,
        read_mapping,
        single_layers,
    )
    from istio_settings._machine_addresses import excluded_interfaces, machine_addresses
    from istio_settings._node import (
        BY_APP_LABEL,
        BY_CANONICAL_NAME,
        BY_CANONICAL_NAME_AND_NAMESPACE,
        ISTIO_VERSION,
        SERVICE_NAMINGS,
        NodeIdentity,
        PodInfo,
        cluster_name,
        locality,
        node_metadata,
        parse_downward_file,
        workload_labels,
    )
    from istio_settings._proxy_config import MergeError, ProxyConfig, merge_layers
    from istio_settings._proxy_fields import Fields
    from istio_settings._setting import HONOURED, NO_EFFECT, REFUSED, Fate, Setting
    from istio_settings._settings import Read, Settings, is_address
    from istio_settings._without_effect import (
        Program,
        SettingWithoutEffect,
        flags_without_effect,
        unknown_name,
        variables_without_effect,
    )

__all__ = [
    # layers of the proxy configuration
    "Layer",
    "LayerError",
    "MeshFile",
    "LayerField",
    "mesh_file",
    "mesh_layer",
    "parse_layer",
    "read_mapping",
    "single_layers",
    # the merged proxy configuration, and its nested objects
    "MergeError",
    "ProxyConfig",
    "merge_layers",
    "Fields",
    # environment variables
    "Read",
    "Settings",
    "is_address",
    # tables of settings, and those that were given without effect
    "Fate",
    "HONOURED",
    "REFUSED",
    "NO_EFFECT",
    "Setting",
    "Program",
    "SettingWithoutEffect",
    "flags_without_effect",
    "unknown_name",
    "variables_without_effect",
    # node
    "BY_APP_LABEL",
    "BY_CANONICAL_NAME",
    "BY_CANONICAL_NAME_AND_NAMESPACE",
    "ISTIO_VERSION",
    "SERVICE_NAMINGS",
    "NodeIdentity",
    "PodInfo",
    "cluster_name",
    "locality",
    "node_metadata",
    "parse_downward_file",
    "workload_labels",
    "excluded_interfaces",
    "machine_addresses",
    "JSON",
]

_LOADED_WHEN_USED = {
    "Layer": "_layers",
    "LayerError": "_layers",
    "MeshFile": "_layers",
    "LayerField": "_layers",
    "mesh_file": "_layers",
    "mesh_layer": "_layers",
    "parse_layer": "_layers",
    "read_mapping": "_layers",
    "single_layers": "_layers",
    "MergeError": "_proxy_config",
    "ProxyConfig": "_proxy_config",
    "merge_layers": "_proxy_config",
    "Fields": "_proxy_fields",
    "Read": "_settings",
    "Settings": "_settings",
    "is_address": "_settings",
    "Fate": "_setting",
    "HONOURED": "_setting",
    "REFUSED": "_setting",
    "NO_EFFECT": "_setting",
    "Setting": "_setting",
    "Program": "_without_effect",
    "SettingWithoutEffect": "_without_effect",
    "flags_without_effect": "_without_effect",
    "unknown_name": "_without_effect",
    "variables_without_effect": "_without_effect",
    "BY_APP_LABEL": "_node",
    "BY_CANONICAL_NAME": "_node",
    "BY_CANONICAL_NAME_AND_NAMESPACE": "_node",
    "ISTIO_VERSION": "_node",
    "SERVICE_NAMINGS": "_node",
    "NodeIdentity": "_node",
    "PodInfo": "_node",
    "cluster_name": "_node",
    "locality": "_node",
    "node_metadata": "_node",
    "parse_downward_file": "_node",
    "workload_labels": "_node",
    "excluded_interfaces": "_machine_addresses",
    "machine_addresses": "_machine_addresses",
    "JSON": "_json",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
