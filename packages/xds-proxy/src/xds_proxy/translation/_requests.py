"""Whole discovery requests in both dialects: what a translator reads of them, and writes.

Field numbers: envoy/service/discovery/v3/discovery.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mesh_protowire import Span, bytes_field, joined, scan, string_field, text

WILDCARD = "*"

_SOTW_VERSION, _SOTW_NODE, _SOTW_NAMES, _SOTW_TYPE_URL, _SOTW_NONCE, _SOTW_ERROR = 1, 2, 3, 4, 5, 6
_IN_SOTW = frozenset(
    {_SOTW_VERSION, _SOTW_NODE, _SOTW_NAMES, _SOTW_TYPE_URL, _SOTW_NONCE, _SOTW_ERROR}
)
_DELTA_NODE, _DELTA_TYPE_URL, _DELTA_SUBSCRIBE, _DELTA_UNSUBSCRIBE = 1, 2, 3, 4
_DELTA_VERSIONS, _DELTA_NONCE, _DELTA_ERROR = 5, 6, 7
_IN_DELTA = frozenset(
    {
        _DELTA_NODE,
        _DELTA_TYPE_URL,
        _DELTA_SUBSCRIBE,
        _DELTA_UNSUBSCRIBE,
        _DELTA_VERSIONS,
        _DELTA_NONCE,
        _DELTA_ERROR,
    }
)
_KEY, _VALUE = 1, 2
_IN_ENTRY = frozenset({_KEY, _VALUE})


class SotwRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A `DiscoveryRequest`.

    node, error: the serialised `Node` and `error_detail`; None if the request has none.
    """

    type_url: str
    names: tuple[str, ...] = ()
    version: str = ""
    nonce: str = ""
    node: bytes | None = None
    error: bytes | None = None

    @classmethod
    def read(cls, data: bytes) -> SotwRequest:
        """Raise WireError."""
        found = scan(data, _IN_SOTW)
        return cls(
            type_url=text(data, found.get(_SOTW_TYPE_URL)),
            names=_texts(data, found.get(_SOTW_NAMES)),
            version=text(data, found.get(_SOTW_VERSION)),
            nonce=text(data, found.get(_SOTW_NONCE)),
            node=_message(data, found.get(_SOTW_NODE)),
            error=_message(data, found.get(_SOTW_ERROR)),
        )

    def write(self) -> bytes:
        return b"".join(
            (
                string_field(_SOTW_VERSION, self.version),
                _optional(_SOTW_NODE, self.node),
                *_encode_repeated(_SOTW_NAMES, self.names),
                string_field(_SOTW_TYPE_URL, self.type_url),
                string_field(_SOTW_NONCE, self.nonce),
                _optional(_SOTW_ERROR, self.error),
            )
        )


class DeltaRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A `DeltaDiscoveryRequest`.

    versions: its `initial_resource_versions`.
    node, error: the serialised `Node` and `error_detail`; None if the request has none.
    """

    type_url: str
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    nonce: str = ""
    node: bytes | None = None
    error: bytes | None = None

    @classmethod
    def read(cls, data: bytes) -> DeltaRequest:
        """Raise WireError."""
        found = scan(data, _IN_DELTA)
        return cls(
            type_url=text(data, found.get(_DELTA_TYPE_URL)),
            subscribe=_texts(data, found.get(_DELTA_SUBSCRIBE)),
            unsubscribe=_texts(data, found.get(_DELTA_UNSUBSCRIBE)),
            versions=dict(_entry(data, span) for span in found.get(_DELTA_VERSIONS, ())),
            nonce=text(data, found.get(_DELTA_NONCE)),
            node=_message(data, found.get(_DELTA_NODE)),
            error=_message(data, found.get(_DELTA_ERROR)),
        )

    def write(self) -> bytes:
        return b"".join(
            (
                _optional(_DELTA_NODE, self.node),
                string_field(_DELTA_TYPE_URL, self.type_url),
                *_encode_repeated(_DELTA_SUBSCRIBE, self.subscribe),
                *_encode_repeated(_DELTA_UNSUBSCRIBE, self.unsubscribe),
                *(
                    bytes_field(
                        _DELTA_VERSIONS, string_field(_KEY, name) + string_field(_VALUE, version)
                    )
                    for name, version in self.versions.items()
                ),
                string_field(_DELTA_NONCE, self.nonce),
                _optional(_DELTA_ERROR, self.error),
            )
        )


def _texts(data: bytes, spans: list[Span] | None) -> tuple[str, ...]:
    return tuple(text(data, [span]) for span in spans or ())


def _message(data: bytes, spans: list[Span] | None) -> bytes | None:
    return None if spans is None else joined(data, spans)


def _entry(data: bytes, span: Span) -> tuple[str, str]:
    found = scan(data, _IN_ENTRY, *span)
    return text(data, found.get(_KEY)), text(data, found.get(_VALUE))


def _optional(number: int, value: bytes | None) -> bytes:
    return b"" if value is None else bytes_field(number, value)


def _encode_repeated(number: int, values: Iterable[str]) -> Iterable[bytes]:
    return (bytes_field(number, value.encode()) for value in values)
