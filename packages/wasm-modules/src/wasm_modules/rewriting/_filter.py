"""A Wasm filter in an ECDS resource: what it asks for, and the resource with that replaced.

The resource is `envoy.config.core.v3.TypedExtensionConfig`. Its filter is a message of its own
type, or a `TypedStruct` that holds the same as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mesh_protowire import (
    Packed,
    merged,
    replaced,
    text_of,
    type_name,
    unpack,
    value_of,
)
from wasm_modules.rewriting import _json_form, _message_form
from wasm_modules.rewriting._control_settings import is_control_setting
from wasm_modules.rewriting._fallback import FilterKind, fallback
from wasm_modules.rewriting._settings import Settings

EXTENSION_CONFIG: Final = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
_TYPED_STRUCTS = frozenset({"udpa.type.v1.TypedStruct", "xds.type.v3.TypedStruct"})
_MARK = b".wasm.v3.Wasm"  # in each resource that has a Wasm filter
_NAME, _TYPED_CONFIG = 1, 2
_ANY_VALUE = 2
_STRUCT_TYPE_URL, _STRUCT_VALUE = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmFilter:
    """A resource with a Wasm filter; created by `read_filter`.

    name: the resource's.
    """

    name: str
    kind: FilterKind
    settings: Settings
    _body: bytes
    _config: Packed
    _is_json: bool

    def with_local_module(self, path: Path) -> bytes:
        """Return the resource with a file for a module, and no settings for the agent."""
        if self._is_json:
            changed = _json_form.with_local_module(self._filter, path)
            return self._with_filter(_json_form.without_control_settings(changed))
        changed = _message_form.with_local_module(self._filter, path)
        return self._with_filter(_message_form.without_control_settings(changed))

    def without_control_settings(self) -> bytes:
        """Return the resource without settings for the agent; the same object if it has none."""
        if not any(map(is_control_setting, self.settings.environment)):
            return self._body
        form = _json_form if self._is_json else _message_form
        return self._with_filter(form.without_control_settings(self._filter))

    def with_fallback(self) -> bytes:
        """Return the resource with a filter that lets all pass, or nothing."""
        return self._with_config(fallback(self.kind, open_=self.settings.fail_open))

    @property
    def _filter(self) -> bytes:
        value = self._config.value
        return (merged(value, _STRUCT_VALUE) or b"") if self._is_json else value

    def _with_filter(self, filter_: bytes) -> bytes:
        value = self._config.value
        value = replaced(value, _STRUCT_VALUE, [filter_]) if self._is_json else filter_
        return self._with_config(self._config._replace(value=value))

    def _with_config(self, config: Packed) -> bytes:
        extension = value_of(self._body, _ANY_VALUE) or b""
        extension = replaced(extension, _TYPED_CONFIG, [config.pack()])
        return replaced(self._body, _ANY_VALUE, [extension])


def read_filter(body: bytes) -> WasmFilter | None:
    """Return the Wasm filter in a resource; None if it has none.

    body: the serialised `google.protobuf.Any` of the resource.
    Raises WireError for a resource that cannot be read.
    """
    if _MARK not in body:
        return None
    resource = unpack(body)
    if type_name(resource.type_url) != type_name(EXTENSION_CONFIG):
        return None
    config = unpack(merged(resource.value, _TYPED_CONFIG) or b"")
    kind_name = type_name(config.type_url)
    is_json = kind_name in _TYPED_STRUCTS
    if is_json:
        kind_name = type_name(text_of(config.value, _STRUCT_TYPE_URL))
    kind = next((each for each in FilterKind if each.value == kind_name), None)
    if kind is None:
        return None
    form = _json_form if is_json else _message_form
    inner = (merged(config.value, _STRUCT_VALUE) or b"") if is_json else config.value
    return WasmFilter(
        name=text_of(resource.value, _NAME),
        kind=kind,
        settings=form.settings_of(inner),
        _body=body,
        _config=config,
        _is_json=is_json,
    )
