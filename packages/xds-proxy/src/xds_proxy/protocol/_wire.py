"""The part of the protobuf wire format that the relay needs: to find and to write a few fields.

Messages are not decoded: `scan` goes through the top-level fields and returns the positions of the
wanted ones. Its work is bounded by `MAX_FIELDS`.
Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from xds_proxy._errors import BeyondLimit, WireError

MAX_FIELDS = 1_000_000
"""The most top-level fields in one message; a message with more is refused."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}

Span = tuple[int, int]


class Field(NamedTuple):
    """The position of one top-level field.

    start: of its tag. body: of its content, behind the length if it has one. end: behind it.
    delimited: its content has a length: it is a string, bytes or a message.
    """

    number: int
    start: int
    body: int
    end: int
    delimited: bool


def scan(  # noqa: C901, PLR0912 - one loop without calls: it runs once for each resource
    data: bytes, wanted: AbstractSet[int], start: int = 0, end: int | None = None
) -> Mapping[int, list[Span]]:
    """Return the positions of the length-delimited fields in `wanted`, by number and in order.

    A wanted field of another wire type is skipped, as protobuf's own parsers do.

    start, end: where in `data` the message is; all of it if they are not given.

    Raises:
        WireError: the bytes are cut short, not protobuf, or hold more than MAX_FIELDS fields.
    """
    found: dict[int, list[Span]] = {}
    position = start
    if end is None:
        end = len(data)
    try:
        for count in range(MAX_FIELDS + 1):
            if position >= end:
                break
            if count == MAX_FIELDS:
                raise BeyondLimit(f"it has more than {MAX_FIELDS} fields")
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = read_varint(data, position - 1)
                if tag > 0xFFFFFFFF:
                    raise WireError("field tag does not fit 32 bits")
            kind = tag & 7
            if tag < 8:
                raise WireError("field number 0 is not allowed")
            if kind == _BYTES:
                length = data[position]
                position += 1
                if length > 0x7F:
                    high = data[position]
                    if high < 0x80:  # two bytes, as resources have; a call costs more than this
                        length = length & 0x7F | high << 7
                        position += 1
                    else:
                        length, position = read_varint(data, position - 1)
                body = position
                position += length
                if position > end:
                    raise WireError("message is cut short")
                number = tag >> 3
                if number in wanted:
                    found.setdefault(number, []).append((body, position))
            elif kind == _VARINT:
                _, position = read_varint(data, position)
            elif kind == _FIXED64:
                position += 8
            elif kind == _FIXED32:
                position += 4
            else:
                raise WireError(
                    f"field {tag >> 3} has wire type {kind}, which discovery messages do not use"
                )
    except IndexError:
        raise WireError("message is cut short") from None
    if position != end:
        raise WireError("message is cut short")
    return found


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield every top-level field in order; slower than `scan`.

    Raises:
        WireError: as `scan`.
    """
    position, budget = start, MAX_FIELDS
    if end is None:
        end = len(data)
    while position < end:
        budget -= 1
        if budget < 0:
            raise BeyondLimit(f"it has more than {MAX_FIELDS} fields")
        first = position
        try:
            tag, position = read_varint(data, position)
            kind = tag & 7
            if tag < 8 or tag > 0xFFFFFFFF:
                raise WireError(f"field tag {tag} is not allowed")
            body = position
            if kind == _BYTES:
                length, body = read_varint(data, position)
                position = body + length
            elif kind == _VARINT:
                _, position = read_varint(data, position)
            elif kind in _FIXED:
                position += _FIXED[kind]
            else:
                raise WireError(
                    f"field {tag >> 3} has wire type {kind}, which discovery messages do not use"
                )
        except IndexError:
            raise WireError("message is cut short") from None
        if position > end:
            raise WireError("message is cut short")
        yield Field(tag >> 3, first, body, position, kind == _BYTES)


def without(data: bytes, numbers: AbstractSet[int]) -> bytes:
    """Return a message without some of its fields; the same object if it has none of them.

    Fields of these numbers that have no length are of no known meaning, and stay.

    Raises:
        WireError: as `scan`.
    """
    kept = []
    copied = 0
    for found in fields(data):
        if found.delimited and found.number in numbers:
            kept.append(data[copied : found.start])
            copied = found.end
    if not copied:
        return data
    kept.append(data[copied:])
    return b"".join(kept)


def text(data: bytes, spans: list[Span] | None) -> str:
    """Return the string at the last of `spans`, which is the one that counts; empty without any."""
    if not spans:
        return ""
    start, end = spans[-1]
    try:
        return data[start:end].decode()
    except UnicodeDecodeError:
        raise WireError("a string field is not UTF-8") from None


def string_field(number: int, value: str) -> bytes:
    """Return a string field; nothing for the empty string, which is proto3's default."""
    return bytes_field(number, value.encode()) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Return a length-delimited field: bytes, a string or a message."""
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(value)) + value


def varint_field(number: int, value: int) -> bytes:
    """Return an unsigned integer field."""
    return _encode_varint(number << 3 | _VARINT) + _encode_varint(value)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and where it ends. Raises WireError, and IndexError."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise WireError("a number is longer than 10 bytes")


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
