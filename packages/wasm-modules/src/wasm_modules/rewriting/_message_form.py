"""A Wasm filter as a message.

Field numbers: envoy/extensions/filters/http/wasm/v3/wasm.proto, and that of network filters, which
has the same; envoy/extensions/wasm/v3/wasm.proto; of envoy/config/core/v3/, base.proto and
http_uri.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mesh_protowire import (
    bytes_field,
    fields,
    merged,
    number_of,
    numbers,
    replaced,
    string_field,
    text_of,
    values_of,
)
from wasm_modules.rewriting._control_settings import is_control_setting
from wasm_modules.rewriting._settings import Remote, Settings

_CONFIG = 1  # of Wasm
_VM_CONFIG, _FAIL_OPEN, _FAILURE_POLICY = 3, 5, 7  # of PluginConfig
_OPEN = 3  # of FailurePolicy
_CODE, _ENVIRONMENT = 3, 7  # of VmConfig
_LOCAL, _REMOTE = 1, 2  # of AsyncDataSource
_FILENAME = 1  # of DataSource
_HTTP_URI, _SHA256 = 1, 2  # of RemoteDataSource
_URI, _TIMEOUT = 1, 3  # of HttpUri
_SECONDS, _NANOS = 1, 2  # of Duration
_KEY_VALUES = 2  # of EnvironmentVariables
_KEY, _VALUE = 1, 2


def settings_of(filter_: bytes) -> Settings:
    """Read a `Wasm` message; raises WireError."""
    plugin = merged(filter_, _CONFIG) or b""
    vm = merged(plugin, _VM_CONFIG) or b""
    opened = number_of(plugin, _FAILURE_POLICY) == _OPEN or number_of(plugin, _FAIL_OPEN) != 0
    environment = merged(vm, _ENVIRONMENT) or b""
    return Settings(
        remote=_remote(merged(vm, _CODE) or b""),
        environment={
            text_of(entry, _KEY): text_of(entry, _VALUE)
            for entry in values_of(environment, _KEY_VALUES)
        },
        fail_open=opened,
    )


def with_local_module(filter_: bytes, path: Path) -> bytes:
    """Return the filter with a file in place of its code."""
    data_source = string_field(_FILENAME, str(path))
    code = bytes_field(_LOCAL, data_source)
    return _with_vm(filter_, lambda vm: replaced(vm, _CODE, [code]))


def without_control_settings(filter_: bytes) -> bytes:
    """Return the filter without the environment variables that are for the agent."""
    return _with_vm(filter_, _without_control_settings)


def _with_vm(filter_: bytes, change: Callable[[bytes], bytes]) -> bytes:
    plugin = merged(filter_, _CONFIG) or b""
    vm = change(merged(plugin, _VM_CONFIG) or b"")
    return replaced(filter_, _CONFIG, [replaced(plugin, _VM_CONFIG, [vm])])


def _without_control_settings(vm: bytes) -> bytes:
    environment = merged(vm, _ENVIRONMENT) or b""
    kept = [
        entry
        for entry in values_of(environment, _KEY_VALUES)
        if not is_control_setting(text_of(entry, _KEY))
    ]
    environment = replaced(environment, _KEY_VALUES, kept)
    return replaced(vm, _ENVIRONMENT, [environment] if environment else [])


def _remote(code: bytes) -> Remote | None:
    given = [each.number for each in fields(code) if each.number in (_LOCAL, _REMOTE)]
    if not given or given[-1] != _REMOTE:
        return None
    remote = merged(code, _REMOTE) or b""
    uri = merged(remote, _HTTP_URI) or b""
    return Remote(
        url=text_of(uri, _URI),
        checksum=text_of(remote, _SHA256),
        timeout_s=_seconds(merged(uri, _TIMEOUT)),
    )


def _seconds(duration: bytes | None) -> float | None:
    if not duration:
        return None
    parts = numbers(duration)
    seconds = parts.get(_SECONDS, 0) + parts.get(_NANOS, 0) / 1e9
    # A negative one is a number of 64 bits here.
    return seconds if 0 < seconds < 2**31 else None
