"""Any bytes: read as a message's fields, an `Any` and a `Struct`, beside protobuf's library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value

from mesh_protowire import (
    BYTES,
    Json,
    WireError,
    decode_struct,
    encode_struct,
    fields,
    numbers,
    replaced,
    scan,
    unpack,
    without,
)

_WANTED = frozenset({1, 2, 5})


def check(data: bytes) -> None:
    """Every reader refuses with WireError, and what protobuf reads as a Struct has equal values."""
    try:
        whole = list(fields(data))
    except WireError:
        whole = None
    try:
        spans = scan(data, _WANTED)
    except WireError:
        spans = None
    if whole is not None and spans is not None:
        assert {number for number in spans if spans[number]} <= {each.number for each in whole}
        assert b"".join(data[each.begin : each.end] for each in whole) == data
        removed = without(data, frozenset(each.number for each in whole))
        assert not any(each.kind == BYTES for each in fields(removed))
        again = replaced(data, 1, [b"x"])
        assert b"x" in [again[each.start : each.end] for each in fields(again)]
    for read in (numbers, unpack):
        with suppress(WireError):
            read(data)
    _check_struct(data)


def _check_struct(data: bytes) -> None:
    try:
        values = decode_struct(data)
    except WireError:
        return
    written = encode_struct(values)
    assert _equal(decode_struct(written), values)
    try:
        message = Struct.FromString(data)
    except DecodeError:
        return  # protobuf looks also into fields that are replaced later
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        return  # it does not take an entry of a map in which there is an unknown field
    assert _equal(values, {key: _plain(value) for key, value in message.fields.items()})


def _plain(value: Value) -> Json:
    match value.WhichOneof("kind"):
        case "struct_value":
            return {key: _plain(each) for key, each in value.struct_value.fields.items()}
        case "list_value":
            return [_plain(each) for each in value.list_value.values]
        case "number_value":
            return value.number_value
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


def _equal(one: Json, other: Json) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return one == other and type(one) is type(other)


def originals() -> Iterator[bytes]:
    """A node's metadata as agents send it, and an Any."""
    metadata: dict[str, Json] = {
        "LABELS": {"app": "web", "version": "v1"},
        "INSTANCE_IPS": "10.0.0.1",
        "PILOT_SAN": ["a", "b", None, True],
        "PROXY_CONFIG": {"concurrency": 2.0, "statusPort": 15020.0},
    }
    yield encode_struct(metadata)
    yield b"\x0a\x20type.googleapis.com/google.p.Any\x12\x03abc"
    yield b"\x08\x96\x01\x12\x07testing\x1d\0\0\0\0\x21\0\0\0\0\0\0\0\0"
