"""Whatever is in a saved file, it is read as it was written or refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xds_proxy.saved._file import FORMAT, MAGIC, Entry, FileList, UnusableFile, decode, encode

_texts = st.text(max_size=30)
_entries = st.builds(
    Entry,
    file=_texts,
    digest=_texts,
    resources=st.integers(0, 10**9),
    size=st.integers(0, 10**12),
    version=_texts,
)
_lists = st.builds(
    FileList,
    owner=st.dictionaries(_texts, _texts, max_size=3),
    control_planes=st.lists(_texts, max_size=3).map(tuple),
    envoy=_texts,
    current_at=st.floats(0, 1e11),
    types=st.dictionaries(_texts, _entries, max_size=3),
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=10,
)


@given(files=_lists, body=st.lists(st.binary(max_size=50), max_size=5))
def test_what_was_written_is_read(files: FileList, body: list[bytes]) -> None:
    written = encode(files.header(), body)
    read = decode(b"".join(written.parts))
    assert FileList.parse(read.header) == files
    assert read.body == b"".join(body)
    assert (read.digest, written.size) == (written.digest, len(b"".join(written.parts)))


@given(data=st.data(), body=st.binary(max_size=200))
def test_a_file_that_is_cut_short_or_has_one_bit_flipped_is_refused(
    data: st.DataObject, body: bytes
) -> None:
    whole = b"".join(encode({"type_url": "t"}, [body]).parts)
    with pytest.raises(UnusableFile):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(UnusableFile):
        decode(bytes(flipped))


@given(content=st.binary(max_size=300) | st.binary(max_size=300).map(MAGIC.__add__))
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(UnusableFile):
        decode(content)


@given(header=_json)
def test_a_list_of_another_form_is_refused_or_read(header: object) -> None:
    content = b"".join(encode({"x": header} if not isinstance(header, dict) else header).parts)
    read = decode(content)
    with pytest.raises(UnusableFile):
        FileList.parse(read.header)


@given(files=_lists, data=st.data())
def test_a_list_with_one_field_of_another_kind_is_refused_or_read(
    files: FileList, data: st.DataObject
) -> None:
    header = dict(files.header())
    header[data.draw(st.sampled_from(sorted(header)))] = data.draw(_json)
    try:
        FileList.parse(header)
    except UnusableFile:
        return
    FileList.parse(json.loads(json.dumps(header)))


def test_a_file_of_a_newer_agent_says_so() -> None:
    whole = bytearray(b"".join(encode({}).parts))
    whole[len(MAGIC) : len(MAGIC) + 2] = (FORMAT + 1).to_bytes(2, "big")
    with pytest.raises(UnusableFile, match="a newer agent wrote it"):
        decode(bytes(whole))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (MAGIC[:5], "it is cut short"),
        (MAGIC, "it is cut short"),
        (b"something else, and longer than the beginning", "it is no saved configuration"),
    ],
)
def test_the_reason_names_the_fault(content: bytes, said: str) -> None:
    with pytest.raises(UnusableFile, match=said):
        decode(content)


def test_the_times_of_a_list_are_times() -> None:
    header = FileList({}, (), "", 1.0, {}).header()
    for wrong in (float("nan"), float("inf"), -1.0, True, "1"):
        with pytest.raises(UnusableFile, match="a time is missing"):
            FileList.parse({**header, "current_at": wrong})
