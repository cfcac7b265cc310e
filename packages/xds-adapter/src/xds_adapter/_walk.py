"""Goes through a resource to the places where extensions are named, and applies what is decided.

Bytes between the places stay as they are, so fields that are unknown here survive. Where nothing is
changed, the same object comes back. The work is bounded: `MAX_DEPTH` and `MAX_FIELDS`.
"""

from __future__ import annotations

from typing import Final

from mesh_protowire import (
    WireError,
    bytes_field,
    fields,
    merged,
    number_of,
    replaced,
    type_name,
    unpack,
    values_of,
)
from xds_adapter import _extension_fields as extension_fields
from xds_adapter import _private as private
from xds_adapter import _stock as stock
from xds_adapter._adaptation import Action, Change
from xds_adapter._decision import Fate, Named, Replace, decide
from xds_adapter._extension_fields import Content, ExtensionField
from xds_adapter._extensions import Extensions

MAX_DEPTH: Final = 48
MAX_FIELDS: Final = 2_000_000

_BYTES = 2
_ANY_VALUE = 2
_ALPN_PROTOCOLS = 4  # of CommonTlsContext
_CLUSTER_METADATA = 25
_PEER_EXCHANGE = "istio-peer-exchange"
_DEFAULT_CONFIG, _WITHOUT_WARMING, _TYPE_URLS = 2, 3, 4  # of ExtensionConfigSource


class Walk:
    """One resource's way through the adapter. changes: what was done, in order."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions
        self._fields_left = MAX_FIELDS
        self._offered: set[str] = set()  # by the cluster's TLS contexts
        self.changes: list[Change] = []

    def resource(self, body: bytes, *, wrapped: bool = False) -> bytes:
        """Return a resource for this Envoy; the same object if nothing is to be changed.

        body: its serialised `google.protobuf.Any`. wrapped: it is in a `Resource` in another one.
        Raises WireError: it is damaged, or too large to be looked through.
        """
        type_url, value = unpack(body)
        found = type_name(type_url)
        if found == extension_fields.WRAPPER and not wrapped:
            inner = merged(value, 2)
            if inner is None or (new := self.resource(inner, wrapped=True)) is inner:
                return body
            return replaced(body, _ANY_VALUE, [replaced(value, 2, [new])])
        if found == extension_fields.EXTENSION_CONFIG:
            adapted = self._extension(extension_fields.EXTENSION_RESOURCE, value, value, 0)
        elif found in extension_fields.RESOURCES:
            adapted = self._message(found, value, 0)
        else:
            return body
        if adapted is value or adapted is None:
            return body
        return replaced(body, _ANY_VALUE, [adapted])

    def _message(self, kind: str, data: bytes, depth: int) -> bytes | None:
        """Return a message, the same object if nothing was changed; None to remove it."""
        if depth > MAX_DEPTH:
            raise WireError("the resource is nested too deeply")
        inside = extension_fields.INSIDE[kind]
        parts: list[bytes] = []
        last = seen = 0
        for number, wire, begin, start, end in fields(data, at_most=self._fields_left):
            seen += 1
            content = inside.get(number)
            if content is None or wire != _BYTES:
                continue
            old = data[start:end]
            new = self._content(content, old, data, depth + 1)
            if new is old:
                continue
            if new is None and isinstance(content, ExtensionField) and content.with_message:
                return None
            parts.append(data[last:begin])
            if new is not None:
                parts.append(bytes_field(number, new))
            last = end
        self._fields_left -= seen
        adapted = b"".join([*parts, data[last:]]) if parts else data
        if kind == extension_fields.COMMON_TLS:
            return self._tls(adapted)
        if kind == extension_fields.CLUSTER:
            return self._cluster(adapted)
        return adapted

    def _content(self, content: Content, data: bytes, around: bytes, depth: int) -> bytes | None:
        if isinstance(content, ExtensionField):
            return self._extension(content, data, around, depth)
        return self._message(content, data, depth)

    def _extension(
        self, field: ExtensionField, data: bytes, around: bytes, depth: int
    ) -> bytes | None:
        """Return what names an extension, as it is, with another configuration, or None."""
        found = _values(data)
        config = found.get(field.config)
        discovery = found.get(field.discovery)
        name = found.get(field.name, b"").decode(errors="replace")
        if discovery is not None:
            return self._discovered(field, name, data, discovery)
        named = Named.read(name, config)
        fate, change = decide(named, field, around, self._extensions)
        if fate is Fate.KEEP:
            if change is not None and not (field.optional and number_of(data, field.optional)):
                self.changes.append(change)
            return data if config is None else self._inside(field, data, config, named, depth)
        if change is not None:
            self.changes.append(change)
        if isinstance(fate, Replace):
            return replaced(data, field.config, [fate.config])
        return None

    def _inside(
        self, field: ExtensionField, data: bytes, config: bytes, named: Named, depth: int
    ) -> bytes:
        """Return what names an extension, after a walk through its configuration."""
        kind = type_name(named.type_url)
        if named.is_struct or kind not in extension_fields.INSIDE:
            return data
        new = self._message(kind, named.value, depth + 1)
        if new is named.value or new is None:
            return data
        return replaced(data, field.config, [replaced(config, _ANY_VALUE, [new])])

    def _discovered(
        self, field: ExtensionField, name: str, data: bytes, source: bytes
    ) -> bytes | None:
        """Return a filter whose configuration comes by ECDS: Envoy must have all its types."""
        urls = [url.decode(errors="replace") for url in values_of(source, _TYPE_URLS)]
        kept, changes = [], []
        substitute: bytes | None = None
        for url in urls:
            fate, change = decide(Named(name, url, b"", True), field, data, self._extensions)
            if fate is Fate.KEEP:
                kept.append(url)
            elif isinstance(fate, Replace):
                substitute = fate.config
            if change is not None:
                changes.append(change)
        self.changes += changes
        if len(kept) == len(urls):
            return data
        if not kept:
            without = replaced(data, field.discovery, [])
            return None if substitute is None else replaced(without, field.config, [substitute])
        # In the place of the others' resources comes a filter that does nothing.
        no_op = stock.TYPES + stock.RBAC
        allowed = kept if no_op in kept or not self._extensions.has(no_op) else [*kept, no_op]
        new = replaced(source, _TYPE_URLS, [url.encode() for url in allowed])
        default = merged(source, _DEFAULT_CONFIG)
        if default is not None and unpack(default).type_url not in kept:
            new = replaced(replaced(new, _DEFAULT_CONFIG, []), _WITHOUT_WARMING, [])
        return replaced(data, field.discovery, [new])

    def _tls(self, context: bytes) -> bytes:
        """Return a TLS context that does not speak of an exchange which this Envoy can't make."""
        protocols = values_of(context, _ALPN_PROTOCOLS)
        names = [each.decode(errors="replace") for each in protocols]
        self._offered.update(names)
        if _PEER_EXCHANGE not in names or self._extensions.has(private.METADATA_EXCHANGE):
            return context
        own = private.BY_TYPE[private.METADATA_EXCHANGE]
        self.changes.append(Change(own.extension, Action.REMOVED, own.lost))
        kept = [each for each in protocols if each != _PEER_EXCHANGE.encode()]
        return replaced(context, _ALPN_PROTOCOLS, kept)

    def _cluster(self, cluster: bytes) -> bytes:
        """Return a cluster with what the stock filter in the place of `istio.alpn` reads.

        Only of clusters whose TLS is Istio's own; others keep what they offer.
        """
        own = private.BY_TYPE[private.ALPN]
        if (
            "istio" not in self._offered
            or self._extensions.has(private.ALPN)
            or own.substitute(extension_fields.HTTP_FILTERS, self._extensions) is None
        ):
            return cluster
        first = "istio-h2" if "h2" in self._offered else "istio-http/1.1"
        # A message in two parts is one: this adds to the metadata that is there.
        added = bytes_field(_CLUSTER_METADATA, stock.alpn_metadata([first, "istio"]))
        return cluster if added in cluster else cluster + added


def _values(data: bytes) -> dict[int, bytes]:
    """Return the values of all fields of bytes by number; parts of a message are put together."""
    found: dict[int, bytes] = {}
    for number, wire, _, start, end in fields(data):
        if wire == _BYTES:
            value = data[start:end]
            found[number] = found[number] + value if number in found else value
    return found
