"""A Wasm filter as JSON, with names in either of the forms that protobuf reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from mesh_protowire import Json, WireError, decode_struct, encode_struct
from wasm_modules.rewriting._control_settings import is_control_setting
from wasm_modules.rewriting._settings import Remote, Settings

_OPEN = ("FAIL_OPEN", 3.0)
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s\Z")
_CONFIG, _VM_CONFIG = "config", "vm_config"
_CODE, _ENVIRONMENT, _KEY_VALUES = "code", "environment_variables", "key_values"


def settings_of(filter_: bytes) -> Settings:
    """Read a `Struct` that holds a Wasm filter; raises WireError."""
    plugin = _object(decode_struct(filter_), _CONFIG)
    vm = _object(plugin, _VM_CONFIG)
    policy = _get(plugin, "failure_policy")
    environment = _object(_object(vm, _ENVIRONMENT), _KEY_VALUES)
    return Settings(
        remote=_remote(_object(vm, _CODE)),
        environment={key: each for key, each in environment.items() if isinstance(each, str)},
        fail_open=policy in _OPEN or _get(plugin, "fail_open") is True,
    )


def with_local_module(filter_: bytes, path: Path) -> bytes:
    """Return the filter with a file in place of its code."""
    code: Json = {"local": {"filename": str(path)}}
    return _with_vm(filter_, lambda vm: _put(vm, _CODE, code))


def without_control_settings(filter_: bytes) -> bytes:
    """Return the filter without the environment variables that are for the agent."""
    return _with_vm(filter_, _without_control_settings)


def _with_vm(filter_: bytes, change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> bytes:
    whole = decode_struct(filter_)
    plugin = _object(whole, _CONFIG)
    plugin = _put(plugin, _VM_CONFIG, change(_object(plugin, _VM_CONFIG)))
    return encode_struct(_put(whole, _CONFIG, plugin))


def _without_control_settings(vm: Mapping[str, Json]) -> Mapping[str, Json]:
    environment = _object(vm, _ENVIRONMENT)
    if not environment:
        return vm
    variables = _object(environment, _KEY_VALUES)
    kept = {key: each for key, each in variables.items() if not is_control_setting(key)}
    return _put(vm, _ENVIRONMENT, _put(environment, _KEY_VALUES, kept))


def _remote(code: Mapping[str, Json]) -> Remote | None:
    if not isinstance(code.get("remote"), Mapping):
        return None
    remote = _object(code, "remote")
    uri = _object(remote, "http_uri")
    timeout = _get(uri, "timeout")
    found = _DURATION.match(timeout) if isinstance(timeout, str) else None
    return Remote(
        url=_text(uri, "uri"),
        checksum=_text(remote, "sha256"),
        timeout_s=(float(found.group(1)) or None) if found else None,
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


def _key(values: Mapping[str, Json], name: str) -> str:
    """Return the form of a field's name that is there."""
    camel = _camel(name)
    return camel if camel in values else name


def _get(values: Mapping[str, Json], name: str) -> Json:
    return values.get(_key(values, name))


def _text(values: Mapping[str, Json], name: str) -> str:
    value = _get(values, name)
    return value if isinstance(value, str) else ""


def _object(values: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = _get(values, name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise WireError(f"{name} is no object")
    return value


def _put(values: Mapping[str, Json], name: str, value: Json) -> Mapping[str, Json]:
    return {**values, _key(values, name): value}
