"""Messages as protobuf itself writes and reads them."""

import pytest
from google.protobuf import any_pb2, descriptor_pb2, wrappers_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import (
    BYTES,
    FIXED32,
    FIXED64,
    BeyondLimit,
    Packed,
    WireError,
    bytes_field,
    fields,
    merged,
    number_of,
    numbers,
    replaced,
    scan,
    string_field,
    text_of,
    type_name,
    unpack,
    value_of,
    values_of,
    varint,
    varint_field,
    without,
)

_CONTENTS = st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=200)), max_size=12)


def _written(contents: list[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes_field(number, value) for number, value in contents)


@given(_CONTENTS)
def test_fields_are_read_as_they_were_written(contents: list[tuple[int, bytes]]) -> None:
    data = _written(contents)
    assert [(each.number, data[each.start : each.end]) for each in fields(data)] == contents


@given(_CONTENTS, st.integers(1, 20), st.lists(st.binary(max_size=20), max_size=3))
def test_only_the_replaced_field_changes(
    contents: list[tuple[int, bytes]], number: int, new: list[bytes]
) -> None:
    data = replaced(_written(contents), number, new)
    assert list(values_of(data, number)) == new
    others = [(each.number, data[each.start : each.end]) for each in fields(data)]
    assert [each for each in others if each[0] != number] == [
        each for each in contents if each[0] != number
    ]


@given(st.binary(max_size=300))
def test_any_bytes_are_fields_or_a_wire_error(data: bytes) -> None:
    try:
        found = list(fields(data))
    except WireError:
        return
    assert b"".join(data[each.begin : each.end] for each in found) == data


@given(
    name=st.text(min_size=1, max_size=40), number=st.integers(0, 2**31 - 1), optional=st.booleans()
)
def test_protobuf_reads_what_is_written_and_the_reverse(
    name: str, number: int, *, optional: bool
) -> None:
    field = descriptor_pb2.FieldDescriptorProto(
        name=name, number=number, oneof_index=3, proto3_optional=optional
    )
    data = field.SerializeToString()
    assert text_of(data, 1) == name
    assert number_of(data, 3) == number
    assert number_of(data, 17) == optional
    again = string_field(1, name) + varint_field(3, number) + varint_field(9, 3)
    again += varint_field(17, optional)
    assert descriptor_pb2.FieldDescriptorProto.FromString(again) == field


def test_a_message_in_two_parts_is_one() -> None:
    data = bytes_field(8, string_field(1, "first")) + bytes_field(8, varint_field(3, 1))
    assert merged(data, 8) == string_field(1, "first") + varint_field(3, 1)
    assert value_of(data, 8) == varint_field(3, 1)
    assert merged(data, 9) is None


def test_an_any_is_unpacked_and_packed() -> None:
    packed = any_pb2.Any(type_url="type.googleapis.com/a.B", value=b"content")
    assert unpack(packed.SerializeToString()) == Packed("type.googleapis.com/a.B", b"content")
    assert Packed("type.googleapis.com/a.B", b"content").pack() == packed.SerializeToString()
    assert type_name("type.googleapis.com/a.B") == "a.B"


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x00",
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\x0b",
        b"\x09abc",
        b"\x0a" + b"\xff" * 9 + b"\x01",
    ],
    ids=["no length", "short", "field 0", "long number", "group", "short fixed64", "huge length"],
)
def test_no_message_is_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        list(fields(data))


def test_the_number_of_fields_is_bounded() -> None:
    data = varint_field(1, 0) * 6
    assert len(list(fields(data, at_most=6))) == 6
    with pytest.raises(BeyondLimit, match="more than 5 fields"):
        list(fields(data, at_most=5))


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_what_protobuf_wrote(value: int) -> None:
    data = wrappers_pb2.UInt64Value(value=value).SerializeToString()
    assert [varint(data, each.start) for each in fields(data)] == [(value, len(data))] * bool(value)


_FIXED = b"\x09" + bytes(8) + b"\x15" + bytes(4)  # field 1 of 64 bits, field 2 of 32


def test_fixed_widths_are_stepped_over() -> None:
    assert list(fields(_FIXED)) == [(1, FIXED64, 0, 1, 9), (2, FIXED32, 9, 10, 14)]


@pytest.mark.parametrize(
    "data",
    [_FIXED, b"\x0a\x03abc", b"\x0a\x80\x01" + bytes(128), b"\x08\x80\x01"],
    ids=["fixed", "bytes", "long bytes", "number"],
)
def test_what_is_cut_short_is_refused(data: bytes) -> None:
    whole = {0, *(each.end for each in fields(data))}
    for length in set(range(len(data))) - whole:
        with pytest.raises(WireError, match="cut short"):
            list(fields(data[:length]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x03", "3 is no tag"),
        (b"\x0b", "wire type 3"),
        (b"\xff\xff\xff\xff\x1f\x00", "is no tag"),
        (b"\x08" + b"\xff" * 11, "more than 10 bytes"),
        (b"\x8a\x80\x80\x80\x80\x80\x80\x80\x80\x02\x00", "is no tag"),
        (b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", "cut short"),
    ],
    ids=["field 0", "group", "36 bits", "11 bytes", "a tag of 65 bits", "a length of 65 bits"],
)
def test_what_is_no_message_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        list(fields(data))
    with pytest.raises(WireError, match=reason):
        scan(data, {1})


def test_of_a_number_the_lowest_64_bits_count() -> None:
    data = b"\x08\x85\x80\x80\x80\x80\x80\x80\x80\x80\x02"
    assert wrappers_pb2.UInt64Value.FromString(data).value == 5
    assert number_of(data, 1) == numbers(data)[1] == 5


@given(
    st.text(max_size=20), st.booleans(), st.frozensets(st.sampled_from((1, 3, 8, 10)), max_size=4)
)
def test_fields_are_taken_out(name: str, packed: bool, taken: frozenset[int]) -> None:  # noqa: FBT001
    message = descriptor_pb2.FieldDescriptorProto(name=name, json_name="x" * 200, number=3)
    message.options.packed = packed
    data = message.SerializeToString()
    rest = without(data, taken)
    if 1 in taken:
        message.ClearField("name")
    if 8 in taken:
        message.ClearField("options")
    if 10 in taken:
        message.ClearField("json_name")
    assert descriptor_pb2.FieldDescriptorProto.FromString(rest) == message
    if not taken - {3}:
        assert rest is data  # field 3 is a number, which stays


@given(st.binary(max_size=200), st.integers(1, 40))
def test_taking_a_field_out_of_any_bytes_leaves_the_others(data: bytes, number: int) -> None:
    try:
        rest = without(data, frozenset({number}))
    except WireError:
        return
    kept = [each for each in fields(data) if (each.number, each.kind) != (number, BYTES)]
    assert rest == b"".join(data[each.begin : each.end] for each in kept)


def test_text_that_is_not_utf_8_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="UTF-8"):
        text_of(bytes_field(1, b"\xff"), 1)
