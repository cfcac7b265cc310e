"""Names between text and the form they have in messages."""

import contextlib

import dns.name
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_dnsproxy.message._names import BadName, name_end, to_text, to_wire

LABELS = st.from_regex(r"[a-zA-Z0-9_*-]{1,20}", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=6).map(".".join)


@given(NAMES)
def test_a_name_is_what_dnspython_makes_of_it_in_lower_case(text: str) -> None:
    wire = to_wire(text)
    assert wire == dns.name.from_text(text.lower()).to_wire()
    assert to_wire(text + ".") == wire
    assert to_text(wire) == text.lower()
    assert name_end(wire, 0) == len(wire)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a..b", "an empty label"),
        (".a", "an empty label"),
        ("x" * 64, "more than 63 bytes"),
        (".".join(["x" * 60] * 5), "more than 253"),
        ("a b", "a space or a control character"),
        ("a\tb", "a space or a control character"),
    ],
)
def test_what_is_no_name_is_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(BadName, match=problem):
        to_wire(text)


def test_a_name_in_another_script_is_asked_for_in_ascii() -> None:
    assert to_text(to_wire("bücher.example")) == "xn--bcher-kva.example"


@given(st.binary(max_size=80), st.integers(0, 80))
def test_any_bytes_have_an_end_of_a_name_or_none(packet: bytes, position: int) -> None:
    with contextlib.suppress(ValueError):
        assert position < name_end(packet, position) <= len(packet)
