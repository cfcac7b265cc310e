"""Numbers of variable length, and the wire types that tell how a field's value is written.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Final

from mesh_protowire._errors import WireError

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

UNSIGNED_64: Final = 0xFFFFFFFFFFFFFFFF


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends. Raises WireError.

    Its ten bytes may hold up to 70 bits. Of a value, protobuf takes the lowest 64; a tag or a
    length that large is not allowed.
    """
    try:
        byte = data[at]
        if byte < 0x80:
            return byte, at + 1
        value, shift = byte & 0x7F, 7
        while shift < 70:
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at + 1
            shift += 7
    except IndexError:
        raise WireError("the message is cut short") from None
    raise WireError("a number has more than 10 bytes")


def encoded(value: int) -> bytes:
    """Return an unsigned number's bytes."""
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
