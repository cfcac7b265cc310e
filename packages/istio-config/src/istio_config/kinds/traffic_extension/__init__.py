"""TrafficExtension and WasmPlugin: programs that proxies run on requests and connections."""

from istio_config.kinds.traffic_extension._kinds import (
    EXTENSION_KINDS,
    MOST_EXTENSIONS,
    TRAFFIC_EXTENSION,
    WASM_PLUGIN,
    ExtensionPhase,
    ExtensionSpec,
    TrafficExtensionSpec,
    TrafficMatch,
    TrafficSide,
    WasmPluginSpec,
)
from istio_config.kinds.traffic_extension._lua import LuaConfig
from istio_config.kinds.traffic_extension._wasm import (
    DEFAULT_SCHEME,
    FILE_SCHEME,
    FailStrategy,
    PluginType,
    PullPolicy,
    ValueFrom,
    VmConfig,
    WasmConfig,
    WasmFields,
)

__all__ = [
    "DEFAULT_SCHEME",
    "EXTENSION_KINDS",
    "FILE_SCHEME",
    "MOST_EXTENSIONS",
    "TRAFFIC_EXTENSION",
    "WASM_PLUGIN",
    "ExtensionPhase",
    "ExtensionSpec",
    "FailStrategy",
    "LuaConfig",
    "PluginType",
    "PullPolicy",
    "TrafficExtensionSpec",
    "TrafficMatch",
    "TrafficSide",
    "ValueFrom",
    "VmConfig",
    "WasmConfig",
    "WasmFields",
    "WasmPluginSpec",
]
