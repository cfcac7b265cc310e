"""The places of wanted fields, as `fields` tells them too."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import (
    BYTES,
    MAX_FIELDS,
    VARINT,
    BeyondLimit,
    WireError,
    bytes_field,
    fields,
    joined,
    scan,
    string_field,
    text,
    varint,
    varint_field,
)

_SMALL = frozenset(range(1, 32))


@st.composite
def messages(draw: st.DrawFn) -> descriptor_pb2.FieldDescriptorProto:
    texts = st.text(max_size=200)
    return descriptor_pb2.FieldDescriptorProto(
        name=draw(texts),
        number=draw(st.integers(-(2**31), 2**31 - 1)),
        type_name=draw(texts),
        json_name=draw(texts) * draw(st.sampled_from((1, 500))),
        proto3_optional=draw(st.booleans()),
        options=descriptor_pb2.FieldOptions(packed=draw(st.booleans())),
    )


@given(messages())
def test_strings_are_read_as_protobuf_reads_them(
    message: descriptor_pb2.FieldDescriptorProto,
) -> None:
    data = message.SerializeToString()
    found = scan(data, frozenset({1, 6, 10}))
    assert text(data, found.get(1)) == message.name
    assert text(data, found.get(6)) == message.type_name
    assert text(data, found.get(10)) == message.json_name
    assert found.keys() == {1, 6, 10}


@given(st.binary(max_size=200))
def test_a_scan_and_the_fields_agree_about_any_bytes(data: bytes) -> None:
    try:
        found = scan(data, _SMALL, numbers=_SMALL)
    except WireError:
        with pytest.raises(WireError):
            list(fields(data))
        return
    expected = [each for each in fields(data) if each.number < 32 and each.kind in (BYTES, VARINT)]
    assert [(each.start, each.end) for each in expected] == sorted(
        span for spans in found.values() for span in spans
    )


@given(st.binary(max_size=40), st.binary(max_size=60), st.binary(max_size=40))
def test_a_message_inside_another_is_scanned_where_it_is(
    before: bytes, message: bytes, after: bytes
) -> None:
    data, start, end = before + message + after, len(before), len(before) + len(message)
    try:
        alone = scan(message, _SMALL)
    except WireError:
        with pytest.raises(WireError):
            scan(data, _SMALL, start, end)
        return
    found = scan(data, _SMALL, start, end)
    assert found == {
        number: [(start + a, start + b) for a, b in spans] for number, spans in alone.items()
    }


@given(messages(), st.data())
def test_a_message_cut_short_is_refused_or_ends_at_a_field(
    message: descriptor_pb2.FieldDescriptorProto, data: st.DataObject
) -> None:
    whole = message.SerializeToString()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        scan(cut, {4})
    except WireError:
        with pytest.raises(DecodeError):
            descriptor_pb2.FieldDescriptorProto.FromString(cut)


def test_numbers_are_yielded_if_they_are_wanted() -> None:
    data = varint_field(1, 7) + varint_field(2, 300) + bytes_field(3, b"") + varint_field(2, 301)
    assert scan(data, frozenset({1, 2, 3})) == {3: [(7, 7)]}
    assert scan(data, frozenset({1}), numbers=frozenset({2})) == {2: [(3, 5), (8, 10)]}
    assert varint(data, 8) == (301, 10)


def test_a_wanted_field_of_another_wire_type_is_skipped() -> None:
    data = b"\x0d\0\0\0\0" + b"\x09" + bytes(8) + b"\x08\x01" + b"\x0a\x01x"
    assert scan(data, {1}) == {1: [(len(data) - 1, len(data))]}


def test_a_message_in_two_parts_is_one_and_of_two_strings_the_last_counts() -> None:
    data = string_field(1, "a") + varint_field(2, 3) + string_field(1, "bc")
    spans = scan(data, {1})[1]
    assert joined(data, spans) == b"abc"
    assert text(data, spans) == "bc"
    assert text(data, None) == text(data, []) == ""


def test_a_string_that_is_not_utf_8_is_a_wire_error() -> None:
    data = bytes_field(1, b"\xff")
    with pytest.raises(WireError, match="UTF-8"):
        text(data, scan(data, {1})[1])


def test_the_number_of_fields_is_bounded() -> None:
    data = varint_field(3, 1) * 6
    assert scan(data, {3}, at_most=6) == {}
    with pytest.raises(BeyondLimit, match="more than 5 fields"):
        scan(data, {3}, at_most=5)
    with pytest.raises(WireError, match="cut short"):
        scan(data[:-1], {3}, at_most=6)


def test_a_message_of_countless_fields_is_beyond_the_limit() -> None:
    with pytest.raises(BeyondLimit, match=f"more than {MAX_FIELDS} fields"):
        scan(b"\x18\x01" * (MAX_FIELDS + 1), {4})
