"""Hosts with wildcards: which have which, and which is narrower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_config.host_patterns import has, narrower, overlaps

NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(".".join)
PATTERNS = st.one_of(NAMES, NAMES.map("*.{}".format), st.just("*"))


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("a.example", "a.example", True),
        ("a.example", "*.example", False),
        ("*.example", "a.example", True),
        ("*.example", "a.b.example", True),
        ("*.example", "example", False),
        ("*.example", ".example", False),
        ("*.example", "*.b.example", True),
        ("*.b.example", "*.example", False),
        ("*", "*.example", True),
        ("*", "example", True),
        ("*a.example", "xa.example", True),
        ("*a.example", "a.example", False),
    ],
)
def test_pattern_has_what_ends_as_it_does(pattern: str, host: str, *, expected: bool) -> None:
    assert has(pattern, host) is expected


@given(PATTERNS, PATTERNS, NAMES)
def test_hosts_of_the_narrower_are_those_of_both(one: str, other: str, host: str) -> None:
    both = narrower(one, other)
    assert (both is not None) == overlaps(one, other)
    assert (both is not None and has(both, host)) == (has(one, host) and has(other, host))
