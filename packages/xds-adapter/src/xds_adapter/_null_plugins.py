"""Wasm plugins of the null VM: compiled into an Envoy, configured as if they were modules.

In Istio's releases before 1.17 telemetry consists of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh_protowire import Json, decode_struct, merged, text_of

WASM_TYPES: Final = frozenset(
    {
        "envoy.extensions.filters.http.wasm.v3.Wasm",
        "envoy.extensions.filters.network.wasm.v3.Wasm",
        "envoy.extensions.access_loggers.wasm.v3.WasmAccessLog",
    }
)
NETWORK_WASM: Final = "envoy.extensions.filters.network.wasm.v3.Wasm"

_NULL_VM = "envoy.wasm.runtime.null"
_CATEGORIES = ("envoy.wasm.null_vms", "envoy.wasm.null_vm")

_CONFIG = 1  # of all three types: a PluginConfig
_VM_CONFIG = 3
_RUNTIME, _CODE = 2, 3
_LOCAL, _INLINE_BYTES, _INLINE_STRING = 1, 2, 3


def null_plugin(wasm: bytes) -> str:
    """Return the plugin that a Wasm configuration names; empty for a module. Raises WireError."""
    vm = merged(merged(wasm, _CONFIG) or b"", _VM_CONFIG) or b""
    if text_of(vm, _RUNTIME) != _NULL_VM:
        return ""
    code = merged(merged(vm, _CODE) or b"", _LOCAL) or b""
    return text_of(code, _INLINE_STRING) or text_of(code, _INLINE_BYTES)


def null_plugin_in_struct(wasm: bytes) -> str:
    """Return the same for a configuration that is a `google.protobuf.Struct`. Raises WireError."""
    vm = _object(_object(decode_struct(wasm), "config"), "vm_config", "vmConfig")
    if vm.get("runtime") != _NULL_VM:
        return ""
    code = _object(_object(vm, "code"), "local")
    name = code.get("inline_string", code.get("inlineString"))
    return name if isinstance(name, str) else ""


def _object(values: Mapping[str, Json], *names: str) -> Mapping[str, Json]:
    for name in names:
        value = values.get(name)
        if isinstance(value, Mapping):
            return value
    return {}
