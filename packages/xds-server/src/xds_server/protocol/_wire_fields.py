"""The fields of a protobuf message, read off the wire without decoding the message.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields(data: bytes, *, at_most: int = sys.maxsize) -> Iterator[tuple[int, int, int]]:
    """Yield the top-level fields in their order: number, and where the value begins and ends.

    Raises ValueError for bytes that are cut short or no message, and for more than `at_most`
    fields, after yielding the fields before.
    """
    at, end = 0, len(data)
    while at < end:
        at_most -= 1
        if at_most < 0:
            raise ValueError("too many fields")
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = varint(data, at - 1)
        if not 8 <= tag <= 0xFFFFFFFF:
            raise ValueError(f"tag {tag}")
        kind = tag & 7
        start = at
        if kind == _BYTES:
            length, start = varint(data, at)
            at = start + length
        elif kind == _VARINT:
            _, at = varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at > end:
            raise ValueError("cut short")
        yield tag >> 3, start, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends. Raises ValueError."""
    try:
        byte = data[at]
        if byte < 0x80:
            return byte, at + 1
        result, shift = byte & 0x7F, 7
        while shift < 70:
            at += 1
            byte = data[at]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result, at + 1
            shift += 7
    except IndexError:
        raise ValueError("cut short") from None
    raise ValueError("a number of more than 10 bytes")
