"""The fields of a message: where they stand, what they hold, and a message with one replaced.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types that are read; the two of groups are refused."""

MAX_FIELDS = 1_000_000


class WireError(ValueError):
    """Bytes that are no message, or a message with too many fields."""


class Field(NamedTuple):
    """One field of a message.

    kind: the wire type.
    begin, end: the whole field with its tag.
    start: of the value, which ends at `end`.
    """

    number: int
    kind: int
    begin: int
    start: int
    end: int


def fields(data: bytes, *, at_most: int = MAX_FIELDS) -> Iterator[Field]:
    """Yield the top-level fields in their order.

    Raises WireError for bytes that are cut short or no message, and for more than `at_most` fields,
    after yielding the fields before.
    """
    at, size = 0, len(data)
    while at < size:
        at_most -= 1
        if at_most < 0:
            raise WireError("the message has too many fields")
        begin = at
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = varint(data, begin)
        if not 8 <= tag <= 0xFFFFFFFF:
            raise WireError(f"{tag} is no tag of a field")
        kind = tag & 7
        start = at
        if kind == BYTES:
            length, start = varint(data, at)
            at = start + length
        elif kind == VARINT:
            _, at = varint(data, at)
        elif kind == FIXED64:
            at += 8
        elif kind == FIXED32:
            at += 4
        else:
            raise WireError(f"field {tag >> 3} has wire type {kind}, which is not read")
        if at > size:
            raise WireError("the message is cut short")
        yield Field(tag >> 3, kind, begin, start, at)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends. Raises WireError."""
    value = shift = 0
    try:
        while shift < 70:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, at
            shift += 7
    except IndexError:
        raise WireError("the message is cut short") from None
    raise WireError("a number has more than 10 bytes")


def values_of(data: bytes, number: int) -> tuple[bytes, ...]:
    """Return all values of a field of bytes, strings or messages. Raises WireError."""
    return tuple(
        data[each.start : each.end]
        for each in fields(data)
        if each.number == number and each.kind == BYTES
    )


def value_of(data: bytes, number: int) -> bytes | None:
    """Return the value of a field of bytes or of a string; None without it. Raises WireError.

    Of several the last counts, as protobuf has it. For a message see `merged`.
    """
    return found[-1] if (found := values_of(data, number)) else None


def merged(data: bytes, number: int) -> bytes | None:
    """Return the message in a field; None without it. Raises WireError.

    Several are one, whose fields follow each other, as protobuf has it.
    """
    return b"".join(found) if (found := values_of(data, number)) else None


def text_of(data: bytes, number: int) -> str:
    """Return the string in a field; empty without it. Raises WireError."""
    try:
        return (value_of(data, number) or b"").decode()
    except UnicodeDecodeError:
        raise WireError(f"the string in field {number} is not UTF-8") from None


def number_of(data: bytes, number: int) -> int:
    """Return the unsigned number in a field: an integer, a bool or an enum; 0 without it.

    Raises WireError.
    """
    return numbers(data).get(number, 0)


def numbers(data: bytes) -> Mapping[int, int]:
    """Return all fields with a varint, of several of one number the last. Raises WireError."""
    return {
        each.number: varint(data, each.start)[0] for each in fields(data) if each.kind == VARINT
    }


def replaced(data: bytes, number: int, contents: Iterable[bytes]) -> bytes:
    """Return a message with other contents of a field of bytes, strings or messages.

    The new ones stand where the first stood, or at the end; all other bytes stay. Without contents
    the field is removed. Raises WireError.
    """
    new = b"".join(bytes_field(number, content) for content in contents)
    parts = []
    last = 0
    for each in fields(data):
        if each.number == number:
            parts += [data[last : each.begin], new]
            last, new = each.end, b""
    return b"".join([*parts, data[last:], new])


def bytes_field(number: int, value: bytes) -> bytes:
    """Return a field of bytes, or a message's; also of an empty one."""
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def string_field(number: int, value: str) -> bytes:
    """Return a string's field; nothing for the empty string, which is proto3's default."""
    return bytes_field(number, value.encode()) if value else b""


def varint_field(number: int, value: int) -> bytes:
    """Return the field of an unsigned integer, a bool or an enum; also of 0."""
    return _varint(number << 3 | VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
