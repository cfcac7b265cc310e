"""Responses written by hand from bytes that are already packed.

Protobuf fields may come in any order and concatenate, so a response is the bytes of its resources,
which streams share, followed by those that differ from stream to stream: version and nonce.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

from xds_server.protocol._resource import Resource
from xds_server.protocol._type_urls import RESOURCE_WRAPPER


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _head(field: int, length: int) -> bytes:
    """Return tag and length of a length-delimited field; its value follows."""
    return _varint(field << 3 | 2) + _varint(length)


def _field(field: int, value: bytes) -> bytes:
    return _head(field, len(value)) + value


def _text(field: int, value: str) -> bytes:
    encoded = value.encode()
    if 0 < len(encoded) < 0x80 and field < 0x10:  # a nonce for each client: half of the time
        return bytes((field << 3 | 2, len(encoded))) + encoded
    return _field(field, encoded) if encoded else b""


def _any_head(type_url: str, body_length: int) -> bytes:
    """Return a `google.protobuf.Any` up to its value's first byte."""
    return _text(1, type_url) + _head(2, body_length)


def _duration(seconds: float) -> bytes:
    """Return a `google.protobuf.Duration`."""
    whole = int(seconds)
    nanos = round((seconds - whole) * 1_000_000_000)
    encoded = b"\x08" + _varint(whole) if whole else b""
    return encoded + (b"\x10" + _varint(nanos) if nanos else b"")


def _bare(resource: Resource) -> bytes:
    """Return an `envoy.service.discovery.v3.Resource` without its body."""
    head = _text(3, resource.name) + _text(1, resource.version)
    if resource.ttl_s is not None:
        head += _field(6, _duration(resource.ttl_s))
    return head


def _wrap(resource: Resource) -> bytes:
    """Return an `envoy.service.discovery.v3.Resource` up to the body, which is last."""
    head = _bare(resource)
    inner = _any_head(resource.type_url, len(resource.body))
    return head + _head(2, len(inner) + len(resource.body)) + inner


def _sotw_head(resource: Resource) -> bytes:
    """Return the bytes before the body in a state-of-the-world response (field 2, an `Any`).

    A resource with a TTL is sent inside a `Resource`, as a bare `Any` has no place for the TTL.
    """
    wrapped = _wrap(resource)
    head = _any_head(RESOURCE_WRAPPER, len(wrapped) + len(resource.body)) + wrapped
    return _head(2, len(head) + len(resource.body)) + head


@lru_cache(maxsize=4096)
def _bare_sotw_head(type_url: str, body_length: int) -> bytes:
    """Return the same for a resource without TTL: one for all that are as long."""
    head = _any_head(type_url, body_length)
    return _head(2, len(head) + body_length) + head


def _delta_head(resource: Resource) -> bytes:
    """Return the bytes before the body in a delta response (field 2, a `Resource`)."""
    head = _wrap(resource)
    return _head(2, len(head) + len(resource.body)) + head


def sotw_body(resources: Iterable[Resource]) -> bytes:
    """Return the resources of a `DiscoveryResponse`: the bytes that streams share."""
    parts: list[bytes] = []
    for resource in resources:
        if resource.ttl_s is None:
            parts.append(_bare_sotw_head(resource.type_url, len(resource.body)))
        else:
            parts.append(_sotw_head(resource))
        parts.append(resource.body)
    return b"".join(parts)


def delta_body(resources: Iterable[Resource]) -> bytes:
    """Return the resources of a `DeltaDiscoveryResponse`: the bytes that streams share."""
    parts: list[bytes] = []
    for resource in resources:
        derived = resource._derived
        if not derived.delta_head:
            derived.delta_head = _delta_head(resource)
        parts.append(derived.delta_head)
        parts.append(resource.body)
    return b"".join(parts)


def delta_heartbeat(resources: Iterable[Resource]) -> bytes:
    """Return resources that have not changed and shall not expire: named, without their bodies."""
    return b"".join(_field(2, _bare(resource)) for resource in resources)


@lru_cache(maxsize=256)
def _sotw_tail(type_url: str, version: str, identifier: str) -> bytes:
    return _text(1, version) + _text(4, type_url) + _field(6, _text(1, identifier))


@lru_cache(maxsize=256)
def _delta_tail(type_url: str, version: str, identifier: str) -> bytes:
    return _text(1, version) + _text(4, type_url) + _field(7, _text(1, identifier))


def sotw_tail(*, type_url: str, version: str, nonce: str, identifier: str) -> bytes:
    """Return the rest of a `DiscoveryResponse`; all but the nonce is the same for every client."""
    return _sotw_tail(type_url, version, identifier) + _text(5, nonce)


def delta_tail(
    *, type_url: str, version: str, nonce: str, identifier: str, removed: Collection[str]
) -> bytes:
    """Return the rest of a `DeltaDiscoveryResponse`."""
    same = _delta_tail(type_url, version, identifier) + _text(5, nonce)
    return b"".join((*map(_removed_field, removed), same)) if removed else same


_REMOVED_HEADS = tuple(bytes((6 << 3 | 2, length)) for length in range(0x80))


def _removed_field(name: str) -> bytes:
    """Return the name of a removed resource; a client may ask for any number that do not exist."""
    encoded = name.encode()
    length = len(encoded)
    return _REMOVED_HEADS[length] + encoded if length < 0x80 else _field(6, encoded)
