"""Fetches, verifies and caches Wasm modules from HTTP servers and OCI registries.

`getting_modules` gives files by URL. `rewriting` changes the ECDS resources of a control plane, so
that Envoy reads their modules from such files.
"""

from mesh_address_guard import IpNetwork
from wasm_modules._config import ANY_REGISTRY, MAX_MODULE_BYTES, WasmConfig
from wasm_modules._counters import DURATION_BUCKETS_MS, Conversion, Counters, Durations
from wasm_modules._errors import (
    ChecksumMismatch,
    ConfigError,
    DownloadError,
    FetchError,
    FetchResult,
    ManifestError,
    WasmError,
)
from wasm_modules._running import getting_modules, rewriting
from wasm_modules._source import ModuleRequest, PullPolicy
from wasm_modules.rewriting._filter import EXTENSION_CONFIG
from wasm_modules.rewriting._rewriter import FilterStatus, WasmRewriter

__all__ = [
    # files by URL
    "ModuleRequest",
    "PullPolicy",
    "getting_modules",
    # resources for Envoy
    "EXTENSION_CONFIG",
    "FilterStatus",
    "WasmRewriter",
    "rewriting",
    # configuration
    "ANY_REGISTRY",
    "MAX_MODULE_BYTES",
    "IpNetwork",
    "WasmConfig",
    # totals
    "DURATION_BUCKETS_MS",
    "Conversion",
    "Counters",
    "Durations",
    # errors
    "ChecksumMismatch",
    "ConfigError",
    "DownloadError",
    "FetchError",
    "FetchResult",
    "ManifestError",
    "WasmError",
]
