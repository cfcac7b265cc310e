"""Reads and replaces single fields of serialised protobuf messages, without their schema.

What is not replaced keeps its bytes, so fields that the caller does not know survive. Nothing but
the standard library is imported.
"""

from mesh_protowire._any import Packed, type_name, unpack
from mesh_protowire._errors import BeyondLimit, WireError
from mesh_protowire._fields import (
    MAX_FIELDS,
    Field,
    fields,
    merged,
    number_of,
    numbers,
    text_of,
    value_of,
    values_of,
)
from mesh_protowire._scan import Span, joined, scan, text
from mesh_protowire._struct import Json, decode_struct, encode_struct
from mesh_protowire._varint import BYTES, FIXED32, FIXED64, VARINT, varint
from mesh_protowire._writing import bytes_field, replaced, string_field, varint_field, without

__all__ = [
    # read any field
    "BYTES",
    "FIXED32",
    "FIXED64",
    "MAX_FIELDS",
    "VARINT",
    "Field",
    "fields",
    "merged",
    "number_of",
    "numbers",
    "text_of",
    "value_of",
    "values_of",
    "varint",
    # read a few fields of many messages
    "Span",
    "joined",
    "scan",
    "text",
    # write
    "bytes_field",
    "replaced",
    "string_field",
    "varint_field",
    "without",
    # google.protobuf.Any
    "Packed",
    "type_name",
    "unpack",
    # google.protobuf.Struct
    "Json",
    "decode_struct",
    "encode_struct",
    # errors
    "BeyondLimit",
    "WireError",
]
