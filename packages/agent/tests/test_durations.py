from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_agent._durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86400), ("1h30m", 5400), ("20s", 20), ("100ms", 0.1), ("1.5s", 1.5), ("0", 0)],
)
def test_durations_as_istio_writes_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "20", "s", "20 s", "-5s", "1h30", "5d", "s20", "9" * 400 + "h"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 24h|longer than any"):
        parse_duration(text)


@given(st.text(max_size=20))
def test_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        duration = parse_duration(text)
    except ValueError:
        return
    assert duration >= timedelta()
