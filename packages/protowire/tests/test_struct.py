"""`Struct` as protobuf itself writes and reads it."""

import pytest
from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import Json, WireError, bytes_field, decode_struct, encode_struct

_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _VALUES, max_size=5))
def test_protobuf_reads_what_is_encoded_and_the_reverse(values: dict[str, Json]) -> None:
    encoded = encode_struct(values)
    theirs = struct_pb2.Struct.FromString(encoded)
    assert json_format.MessageToDict(theirs) == values
    assert decode_struct(theirs.SerializeToString()) == values


@given(st.binary(max_size=200))
def test_any_bytes_are_a_dictionary_or_a_wire_error(data: bytes) -> None:
    try:
        decode_struct(data)
    except WireError:
        return


@pytest.mark.parametrize("kind", [5, 6], ids=["objects", "lists"])
def test_nesting_is_bounded(kind: int) -> None:
    value = b""
    for _ in range(500):
        value = bytes_field(1, bytes_field(2, value)) if kind == 5 else bytes_field(1, value)
        value = bytes_field(kind, value)
    with pytest.raises(WireError, match="nested too deeply"):
        decode_struct(bytes_field(1, bytes_field(1, b"key") + bytes_field(2, value)))
