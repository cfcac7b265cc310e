"""Durations are Go's: what Istio's own tools take, and refuse, in one place."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import (
    LONGEST,
    Duration,
    DurationBoundsError,
    DurationError,
    parse_duration,
    spell_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", 86400),
        ("1h30m", 5400),
        ("30m1h", 5400),
        ("1s2s", 3),
        ("100ms", 0.1),
        # protobuf's JSON
        ("1.5s", 1.5),
        ("0.000001s", 1e-6),
        # Go's time.ParseDuration
        ("0", 0),
        ("0s", 0),
        ("-0s", 0),
        ("+5s", 5),
        (".5s", 0.5),
        ("5.s", 5),
        ("1us", 1e-6),
        ("1\u00b5s", 1e-6),
        ("1\u03bcs", 1e-6),
        ("0.0000000001s", 0),
        # a variable that ends with a line break
        (" 20s\n", 20),
    ],
)
def test_what_go_reads_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "s", ".s", "20 s", "1.5.5s", "1e3s", "1_0s", "24H", "s20"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DurationError, match=r"is not a duration such as 24h, .* or 100ms$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1d", "; a day is 24h"),
        ("20", "; it needs a unit: h, m, s, ms, us or ns"),
        ("1.5", "; it needs a unit: h, m, s, ms, us or ns"),
        ("1h30", "; it needs a unit: h, m, s, ms, us or ns"),
    ],
)
def test_what_is_likely_meant_is_reported(text: str, hint: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert caught.value.hint == hint
    assert str(caught.value).endswith(hint)


def test_digits_of_other_scripts_are_none() -> None:
    with pytest.raises(DurationError):
        parse_duration("\u0661s")


def test_a_duration_is_never_negative() -> None:
    with pytest.raises(DurationBoundsError, match="'-1s' is shorter than 0s, the shortest allowed"):
        parse_duration("-1s")


@pytest.mark.parametrize("text", ["9999999h", "2562048h", "315576000000s", "9" * 50 + "h"])
def test_longer_than_go_can_hold_is_reported_with_the_bound(text: str) -> None:
    bound = r"is longer than 2562047h47m16\.854775807s, the longest allowed"
    with pytest.raises(DurationBoundsError, match=bound):
        parse_duration(text)
    with pytest.raises(DurationBoundsError, match=bound):
        Duration.parse(text)


def test_the_longest_duration_of_go_is_read() -> None:
    assert parse_duration("2562047h47m16.854775807s") >= LONGEST


def test_bounds_of_the_callers_own_are_reported() -> None:
    least, most = timedelta(seconds=5), timedelta(hours=1)
    assert parse_duration("5s", least=least, most=most) == least
    assert parse_duration("1h", least=least, most=most) == most
    with pytest.raises(DurationBoundsError, match="'1ms' is shorter than 5s"):
        parse_duration("1ms", least=least, most=most)
    with pytest.raises(DurationBoundsError, match="'61m' is longer than 1h"):
        parse_duration("61m", least=least, most=most)


@pytest.mark.parametrize("text", ["9" * 101 + "s", "9" * 100_000, "1s" * 100_000])
def test_no_text_is_too_long_to_be_refused_in_a_short_sentence(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 300


def test_only_zero_is_zero() -> None:
    assert parse_duration("1ns") == timedelta(microseconds=1)


@given(st.timedeltas(min_value=timedelta(), max_value=LONGEST))
def test_a_spelled_duration_is_read_as_the_same(duration: timedelta) -> None:
    assert parse_duration(spell_duration(duration)) == duration


@pytest.mark.parametrize("text", ["0s", "1us", "2.5ms", "59s", "1h30m", "24h", "1m0.25s"])
def test_a_duration_is_spelled_as_people_do(text: str) -> None:
    assert spell_duration(parse_duration(text)) == text


@given(st.text(max_size=20) | st.text("0123456789.hmsun+- ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        duration = parse_duration(text)
    except DurationError:
        return
    assert duration >= timedelta()


@pytest.mark.parametrize(("text", "hours"), [("30d", 720), ("1d12h", 36), ("0.5d", 12), ("2h", 2)])
def test_days_are_read_where_they_are_allowed(text: str, hours: int) -> None:
    assert parse_duration(text, allow_days=True) == timedelta(hours=hours)
