"""Settings of an Istio installation for its proxies: variables, proxy configuration, pod, node.

Each value knows where it was given, and all mistakes are told at once.

Names are loaded when they are first used: programs that start beside every workload need few.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from istio_settings._json import JSON
    from istio_settings._layers import (
        Layer,
        LayerError,
        MeshFile,
        Place,
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
    from istio_settings._setting import HONOURED, REFUSED, TOLD, Fate, Setting
    from istio_settings._settings import Read, Settings, is_address
    from istio_settings._told import (
        Program,
        Told,
        flags_told,
        unknown_name,
        variables_told,
    )

__all__ = [
    # layers of the proxy configuration
    "Layer",
    "LayerError",
    "MeshFile",
    "Place",
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
    # tables of settings, and what is told of those that were given
    "Fate",
    "HONOURED",
    "REFUSED",
    "TOLD",
    "Setting",
    "Program",
    "Told",
    "flags_told",
    "unknown_name",
    "variables_told",
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
    "Place": "_layers",
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
    "TOLD": "_setting",
    "Setting": "_setting",
    "Program": "_told",
    "Told": "_told",
    "flags_told": "_told",
    "unknown_name": "_told",
    "variables_told": "_told",
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
