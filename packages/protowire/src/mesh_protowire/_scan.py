"""The places of a few wanted fields: for who reads every message that passes through.

`scan` is one loop without calls or generators, and tells places instead of copying contents.
`fields` tells of every field, in its order; it takes about twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from mesh_protowire._errors import BeyondLimit, WireError
from mesh_protowire._fields import MAX_FIELDS
from mesh_protowire._varint import BYTES, FIXED32, FIXED64, VARINT, varint

Span: TypeAlias = "tuple[int, int]"
"""Where a field's content begins and ends."""

_NO_NUMBERS: frozenset[int] = frozenset()


def scan(  # noqa: C901, PLR0912 - one loop without calls: it runs once for each resource
    data: bytes,
    wanted: AbstractSet[int],
    start: int = 0,
    end: int | None = None,
    *,
    numbers: AbstractSet[int] = _NO_NUMBERS,
    at_most: int = MAX_FIELDS,
) -> Mapping[int, list[Span]]:
    """Return the places of the strings, bytes and messages in `wanted`, by number and in order.

    A wanted field of another wire type is skipped, as protobuf's own parsers do.

    start, end: where in `data` the message is; all of it if they are not given.
    numbers: fields that are yielded if they are integers, bools or enums, for `varint` to read.

    Raises WireError for bytes that are cut short or no message, and BeyondLimit for more than
    `at_most` fields.
    """
    found: dict[int, list[Span]] = {}
    position = start
    if end is None:
        end = len(data)
    try:
        for _ in range(at_most):
            if position >= end:
                break
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = varint(data, position - 1)
            if tag < 8 or tag > 0xFFFFFFFF:
                raise WireError(f"{tag} is no tag of a field")
            kind = tag & 7
            if kind == BYTES:
                length = data[position]
                position += 1
                if length > 0x7F:
                    high = data[position]
                    if high < 0x80:  # two bytes, as resources have; a call costs more than this
                        length = length & 0x7F | high << 7
                        position += 1
                    else:
                        length, position = varint(data, position - 1)
                content = position
                position += length
                if position > end:
                    raise WireError("the message is cut short")
                number = tag >> 3
                if number in wanted:
                    found.setdefault(number, []).append((content, position))
            elif kind == VARINT:
                content = position
                _, position = varint(data, position)
                if numbers and tag >> 3 in numbers:
                    found.setdefault(tag >> 3, []).append((content, position))
            elif kind == FIXED64:
                position += 8
            elif kind == FIXED32:
                position += 4
            else:
                raise WireError(f"field {tag >> 3} has wire type {kind}, which is not read")
        else:
            if position < end:
                raise BeyondLimit(f"the message has more than {at_most} fields")
    except IndexError:
        raise WireError("the message is cut short") from None
    if position != end:
        raise WireError("the message is cut short")
    return found


def text(data: bytes, spans: Sequence[Span] | None) -> str:
    """Return the string at the last of `spans`, which is the one that counts; empty without any.

    Raises WireError.
    """
    if not spans:
        return ""
    start, end = spans[-1]
    try:
        return data[start:end].decode()
    except UnicodeDecodeError:
        raise WireError("a string is not UTF-8") from None


def joined(data: bytes, spans: Iterable[Span]) -> bytes:
    """Return the message at `spans`: several are one, whose fields follow each other."""
    return b"".join(data[start:end] for start, end in spans)
