"""Reads and replaces single fields of serialised protobuf messages, without their schema.

What is not replaced keeps its bytes, so fields that the caller does not know survive. Nothing but
the standard library is imported.
"""

from mesh_protowire._any import Packed, type_name, unpack
from mesh_protowire._fields import (
    Field,
    WireError,
    bytes_field,
    fields,
    merged,
    number_of,
    numbers,
    replaced,
    string_field,
    text_of,
    value_of,
    values_of,
    varint,
    varint_field,
)
from mesh_protowire._struct import Json, decode_struct, encode_struct

__all__ = [
    # read
    "Field",
    "fields",
    "merged",
    "number_of",
    "numbers",
    "text_of",
    "value_of",
    "values_of",
    "varint",
    # write
    "bytes_field",
    "replaced",
    "string_field",
    "varint_field",
    # google.protobuf.Any
    "Packed",
    "type_name",
    "unpack",
    # google.protobuf.Struct
    "Json",
    "decode_struct",
    "encode_struct",
    # errors
    "WireError",
]
