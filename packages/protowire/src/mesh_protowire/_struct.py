"""`google.protobuf.Struct`: a JSON object as a message.

google/protobuf/struct.proto
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from sys import intern
from typing import TypeAlias

from mesh_protowire._errors import WireError
from mesh_protowire._fields import fields, merged, text_of, values_of
from mesh_protowire._varint import BYTES, FIXED64, UNSIGNED_64, VARINT, varint
from mesh_protowire._writing import bytes_field, varint_field

Json: TypeAlias = "bool | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A value of JSON; numbers are floats, as protobuf has them."""

_MAX_DEPTH = 64

_FIELDS = 1  # of Struct: a map
_KEY, _ENTRY_VALUE = 1, 2
_NULL, _NUMBER, _STRING, _BOOL, _STRUCT, _LIST = 1, 2, 3, 4, 5, 6  # of Value
_VALUES = 1  # of ListValue


def decode_struct(data: bytes, *, max_depth: int = _MAX_DEPTH) -> dict[str, Json]:
    """Return a serialised `Struct` as a dictionary. Raises WireError, also if it is nested deeper
    than `max_depth`. Equal keys of several structs are one string in memory.
    """
    if max_depth < 1:
        raise WireError("a Struct is nested too deeply")
    return {
        intern(text_of(entry, _KEY)): _decode_value(merged(entry, _ENTRY_VALUE) or b"", max_depth)
        for entry in values_of(data, _FIELDS)
    }


def encode_struct(values: Mapping[str, Json]) -> bytes:
    """Return a serialised `Struct`, its fields in the order of `values`."""
    return b"".join(
        bytes_field(
            _FIELDS,
            bytes_field(_KEY, key.encode()) + bytes_field(_ENTRY_VALUE, _encode_value(value)),
        )
        for key, value in values.items()
    )


def _decode_value(data: bytes, max_depth: int) -> Json:
    value: Json = None
    for number, kind, _, start, end in fields(data):
        content = data[start:end]
        if (number, kind) == (_NULL, VARINT):
            value = None
        elif (number, kind) == (_NUMBER, FIXED64):
            value = float(struct.unpack("<d", content)[0])
        elif (number, kind) == (_STRING, BYTES):
            value = _text(content)
        elif (number, kind) == (_BOOL, VARINT):
            value = varint(content, 0)[0] & UNSIGNED_64 != 0
        elif (number, kind) == (_STRUCT, BYTES):
            value = decode_struct(content, max_depth=max_depth - 1)
        elif (number, kind) == (_LIST, BYTES):
            if max_depth <= 1:
                raise WireError("a Struct is nested too deeply")
            value = [_decode_value(each, max_depth - 1) for each in values_of(content, _VALUES)]
    return value


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise WireError("a string in a Struct is not UTF-8") from None


def _encode_value(value: Json) -> bytes:
    if value is None:
        return varint_field(_NULL, 0)
    if isinstance(value, bool):
        return varint_field(_BOOL, int(value))
    if isinstance(value, (int, float)):
        return bytes([_NUMBER << 3 | FIXED64]) + struct.pack("<d", value)
    if isinstance(value, str):
        return bytes_field(_STRING, value.encode())
    if isinstance(value, Mapping):
        return bytes_field(_STRUCT, encode_struct(value))
    items = b"".join(bytes_field(_VALUES, _encode_value(each)) for each in value)
    return bytes_field(_LIST, items)
