"""The fields of a message: where they stand and what they hold.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mesh_protowire._errors import BeyondLimit, WireError
from mesh_protowire._varint import BYTES, FIXED32, FIXED64, UNSIGNED_64, VARINT, varint

MAX_FIELDS: Final = 1_000_000
"""The most top-level fields of a message."""


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


_new_field = tuple.__new__  # half the time of calling Field


def fields(data: bytes, *, at_most: int = MAX_FIELDS) -> Iterator[Field]:
    """Yield the top-level fields in their order.

    Raises WireError for bytes that are cut short or no message, and BeyondLimit for more than
    `at_most` fields, after yielding the fields before.
    """
    at, size, left = 0, len(data), at_most
    while at < size:
        left -= 1
        if left < 0:
            raise BeyondLimit(f"the message has more than {at_most} fields")
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
        yield _new_field(Field, (tag >> 3, kind, begin, start, at))


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
    value = 0
    for each, kind, _, start, _ in fields(data):
        if each == number and kind == VARINT:
            value, _ = varint(data, start)
    return value & UNSIGNED_64


def numbers(data: bytes) -> Mapping[int, int]:
    """Return all fields with a varint, of several of one number the last. Raises WireError."""
    return {
        each.number: varint(data, each.start)[0] & UNSIGNED_64
        for each in fields(data)
        if each.kind == VARINT
    }
