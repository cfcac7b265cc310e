"""Fields to put into a message, and a message with some of its fields replaced or taken out."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from mesh_protowire._fields import fields
from mesh_protowire._varint import BYTES, VARINT, encoded


def bytes_field(number: int, value: bytes) -> bytes:
    """Return a field of bytes, or a message's; also of an empty one."""
    return encoded(number << 3 | BYTES) + encoded(len(value)) + value


def string_field(number: int, value: str) -> bytes:
    """Return a string's field; nothing for the empty string, which is proto3's default."""
    return bytes_field(number, value.encode()) if value else b""


def varint_field(number: int, value: int) -> bytes:
    """Return the field of an unsigned integer, a bool or an enum; also of 0."""
    return encoded(number << 3 | VARINT) + encoded(value)


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


def without(data: bytes, numbers: AbstractSet[int]) -> bytes:
    """Return a message without some of its fields; the same object if it has none of them.

    They are fields of bytes, strings or messages: those of another wire type stay. Raises
    WireError.
    """
    kept = []
    copied = 0
    for number, kind, begin, _, end in fields(data):
        if kind == BYTES and number in numbers:
            kept.append(data[copied:begin])
            copied = end
    if not copied:
        return data
    kept.append(data[copied:])
    return b"".join(kept)
