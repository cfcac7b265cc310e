from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_token_exchange._errors import InvalidRequest
from mesh_token_exchange._form import parse_form

MOST = 64
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXT, TEXT), max_size=MOST))
def test_form_reads_as_it_was_written(pairs: list[tuple[str, str]]) -> None:
    assert parse_form(urlencode(pairs).encode(), max_parameters=MOST) == pairs


@given(st.binary() | TEXT.map(str.encode) | st.text("%&=+aF0", max_size=40).map(str.encode))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        pairs = parse_form(body, max_parameters=MOST)
    except InvalidRequest:
        return
    assert parse_form(urlencode(pairs).encode(), max_parameters=MOST) == pairs


def test_empty_parts_are_skipped_and_a_name_alone_has_an_empty_value() -> None:
    assert parse_form(b"&a=1&&b&=2&", max_parameters=MOST) == [("a", "1"), ("b", ""), ("", "2")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"a=%", "begins no escape"),
        (b"a=%4", "begins no escape"),
        (b"a=%zz", "begins no escape"),
        (b"a=%ff", "not UTF-8"),
        (b"a=%ed%a0%80", "not UTF-8"),
        (b"a=\xc3\xa9", "not ASCII"),
        (b"&" * MOST, "more than 64"),
        (b"a=1&" * MOST, "more than 64"),
    ],
)
def test_nothing_is_guessed(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        parse_form(body, max_parameters=MOST)


def test_refused_bytes_are_not_in_the_error() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_form(b"canary=canary%ff", max_parameters=MOST)
    assert "canary" not in repr(caught.value)
    assert caught.value.__context__ is None
