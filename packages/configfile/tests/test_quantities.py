import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import QuantityError, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("33554432", 32 << 20),
        ("32Mi", 32 << 20),
        ("1.5Gi", 3 << 29),
        (".5Ki", 512),
        ("500M", 500_000_000),
        ("1k", 1000),
        ("0.1", 1),
        (" 1Ki\n", 1024),
    ],
)
def test_what_kubernetes_reads_is_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "Mi", ".", "1.2.3", "-1", "32mi", "32 Mi", "32MB", "1e3", "\u0661", "1" * 41]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(QuantityError, match=r"is not a number of bytes such as 32Mi, .* or 500M"):
        parse_bytes(text)


def test_more_than_an_int64_is_reported_with_the_bound() -> None:
    assert parse_bytes("7Ei") == 7 << 60
    with pytest.raises(QuantityError, match="'8Ei' is more than 9223372036854775807 bytes"):
        parse_bytes("8Ei")


@given(st.text(max_size=10) | st.text("0123456789.kKMGi", max_size=8))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        size = parse_bytes(text)
    except QuantityError:
        return
    assert 0 <= size < 1 << 63
