"""The decision about one named extension: whether the Envoy has it, and what to do if not."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from mesh_protowire import merged, text_of, type_name, unpack
from xds_adapter import _authn as authn
from xds_adapter import _authn_rules as authn_rules
from xds_adapter import _private as private
from xds_adapter import _stock as stock
from xds_adapter._adaptation import Action, Change
from xds_adapter._extension_fields import (
    HTTP_FILTERS,
    PER_ROUTE,
    UPSTREAM_HTTP_FILTERS,
    ExtensionField,
)
from xds_adapter._extensions import Extensions
from xds_adapter._null_plugins import (
    NETWORK_WASM,
    WASM_TYPES,
    null_plugin,
    null_plugin_in_struct,
)

_TYPED_STRUCTS = frozenset({"udpa.type.v1.TypedStruct", "xds.type.v3.TypedStruct"})
_NO_TYPES = frozenset({"", "google.protobuf.Empty"})
_HTTP = frozenset({HTTP_FILTERS, UPSTREAM_HTTP_FILTERS, ""})


class Fate(Enum):
    """KEEP: it stays as it is. REMOVE: it is taken out."""

    KEEP = "keep"
    REMOVE = "remove"


class Replace(NamedTuple):
    """Another configuration, a serialised `Any`, takes its place."""

    config: bytes


class Decision(NamedTuple):
    """The fate of an extension. change: what to tell of it; None if there is nothing."""

    fate: Fate | Replace
    change: Change | None = None


_KEEP = Decision(Fate.KEEP)


class Named(NamedTuple):
    """An extension as a resource names it.

    type_url: of its configuration, also of one in a `TypedStruct`; empty without.
    value: the configuration: a message of this type, or a `Struct` if `is_struct`.
    """

    name: str
    type_url: str
    value: bytes
    is_struct: bool

    @classmethod
    def read(cls, name: str, config: bytes | None) -> Named:
        """Read it. config: the serialised `Any`, None without. Raises WireError."""
        if config is None:
            return cls(name, "", b"", False)
        type_url, value = unpack(config)
        if type_name(type_url) == PER_ROUTE and (inner := merged(value, 1)) is not None:
            type_url, value = unpack(inner)
        if type_name(type_url) in _TYPED_STRUCTS:
            return cls(name, text_of(value, 1), merged(value, 2) or b"", True)
        if type_name(type_url) in _NO_TYPES:
            return cls(name, "", b"", False)
        return cls(name, type_url, value, False)


def decide(named: Named, field: ExtensionField, around: bytes, extensions: Extensions) -> Decision:
    """Decide about an extension. around: the message that the place is in. Raises WireError."""
    known_type = type_name(named.type_url)
    if not known_type:
        if (own := private.TYPE_BY_NAME.get(named.name)) is None:
            return _typed_by_name(named.name, field, extensions)
        known_type = own
    if known_type in extensions.types:
        return _known(known_type, named, field, around, extensions)
    if known_type == private.AUTHN:
        return _authentication(named, field, around, extensions)
    if (own_extension := private.BY_TYPE.get(known_type)) is not None:
        return _taken_out(own_extension, field, extensions)
    if not field.typed:
        return _KEEP  # of routes and protocol options Envoy lists not every type
    return Decision(Fate.KEEP, _refused(named.name or known_type))


def _typed_by_name(name: str, field: ExtensionField, extensions: Extensions) -> Decision:
    if not field.typed or not name:
        return _KEEP
    if (found := extensions.type_for(field.category, name)) is None:
        return _KEEP
    change = Change(name, Action.TRANSLATED)
    return Decision(Replace(stock.packed(found)), change)


def _null_plugin(
    known_type: str, named: Named, field: ExtensionField, extensions: Extensions
) -> Decision:
    plugin = null_plugin_in_struct(named.value) if named.is_struct else null_plugin(named.value)
    if not plugin or extensions.has_name("envoy.wasm.null_vms", plugin):
        return _KEEP
    if (own := private.NULL_PLUGINS.get(plugin)) is None:
        return Decision(Fate.KEEP, _refused(f"{plugin} (Wasm)"))
    if not field.removable and known_type == NETWORK_WASM:
        return Decision(
            Replace(stock.network_no_op()), Change(own.extension, Action.REMOVED, own.lost)
        )
    return _taken_out(own, field, extensions)


def _taken_out(own: private.Private, field: ExtensionField, extensions: Extensions) -> Decision:
    # An entry of a map is what a route changes of a filter, which is itself replaced.
    substitute = own.substitute(field.category, extensions) if field.message else None
    if substitute is not None:
        return Decision(Replace(substitute), Change(own.extension, Action.TRANSLATED, own.lost))
    change = Change(own.extension, Action.REMOVED, own.lost)
    if field.removable:
        return Decision(Fate.REMOVE, change)
    if field.category in _HTTP and extensions.has(stock.RBAC):
        return Decision(Replace(stock.no_op()), change)
    return Decision(Fate.KEEP, _refused(own.extension))


def _known(
    known_type: str, named: Named, field: ExtensionField, around: bytes, extensions: Extensions
) -> Decision:
    """Decide about an extension that the Envoy has; its content may name one that it lacks."""
    if known_type in WASM_TYPES:
        return _null_plugin(known_type, named, field, extensions)
    if known_type == stock.RBAC and authn_rules.METADATA in named.value:
        return _rules(named, field, around, extensions)
    return _KEEP


def _rules(named: Named, field: ExtensionField, around: bytes, extensions: Extensions) -> Decision:
    """Decide about authorization rules that read what `istio_authn` provides."""
    reads_it = field.category == HTTP_FILTERS and bool(field.message)
    if not reads_it or extensions.has(private.AUTHN) or private.AUTHN.encode() not in around:
        return _KEEP
    new = authn.rules_without_it(named.value, around)
    if new is None or new == named.value:
        return _KEEP  # if None, the filter in the place of istio_authn denies all
    change = Change(f"{authn.EXTENSION} (rules)", Action.TRANSLATED)
    return Decision(Replace(stock.packed(stock.RBAC, new)), change)


def _authentication(
    named: Named, field: ExtensionField, around: bytes, extensions: Extensions
) -> Decision:
    if field.category != HTTP_FILTERS or named.is_struct or not extensions.has(stock.RBAC):
        return Decision(Fate.KEEP, _refused(authn.EXTENSION))
    verdict = authn.verdict_on(named.value, around)
    change = Change(authn.EXTENSION, verdict.action, verdict.lost)
    if verdict.substitute is None:
        return Decision(Fate.REMOVE, change)
    return Decision(Replace(verdict.substitute), change)


def _refused(extension: str) -> Change:
    return Change(extension, Action.LEFT, "Envoy does not have it and refuses the resource")
