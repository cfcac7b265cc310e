"""The most specific of many host names and wildcards that match a host."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_model._hosts import HostIndex, full_host
from mesh_settings import DOMAIN

_LABELS = st.text(alphabet="ab", min_size=1, max_size=2)
_HOSTS = st.lists(_LABELS, min_size=1, max_size=3).map(".".join)
_WILDCARDS = st.one_of(st.just("*"), _HOSTS.map("*.{}".format), _HOSTS.map("*{}".format))


def _matches(pattern: str, host: str) -> bool:
    if not pattern.startswith("*"):
        return pattern == host
    return host.removeprefix("*").endswith(pattern[1:])


@given(patterns=st.lists(st.one_of(_HOSTS, _WILDCARDS)), host=st.one_of(_HOSTS, _WILDCARDS))
def test_the_names_that_match_come_from_the_most_specific_to_the_least(
    patterns: list[str], host: str
) -> None:
    index = HostIndex((each, each) for each in patterns)
    expected = sorted(
        {each for each in patterns if _matches(each, host)},
        key=lambda each: (each.startswith("*"), -len(each)),
    )
    assert [values[0] for values in index.matching(host)] == expected
    assert index.most_specific(host)[:1] == tuple(expected[:1])


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("reviews", "reviews.a.svc.cluster.local"),
        ("Reviews.B", "reviews.b"),
        ("*", "*"),
        ("*-x", "*-x"),
        ("10.0.0.1", "10.0.0.1"),
        ("fd00::1", "fd00::1"),
    ],
)
def test_a_name_without_dots_means_a_service_of_the_rules_own_namespace(
    host: str, expected: str
) -> None:
    assert full_host(host, "a", DOMAIN) == expected


def test_all_values_of_a_name_are_kept_in_order() -> None:
    index = HostIndex([("a", 1), ("*", 2), ("a", 3)])
    assert index.most_specific("a") == (1, 3)
    assert index.most_specific(string.ascii_letters) == (2,)
    assert HostIndex[int]().most_specific("a") == ()
