"""Differences of JSON values: short, by name, and enough to make the one of the other."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mesh_testkit import Json, differences, with_differences

NAMES = st.sampled_from(["a", "b", "c/d", "e~1", ""])
LEAVES: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers(0, 2) | NAMES


def json_values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.lists(st.fixed_dictionaries({"name": NAMES, "value": inner}), max_size=4)
    return named | st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)


VALUES = st.recursive(LEAVES, json_values, max_leaves=12)


@given(base=VALUES, value=VALUES)
def test_the_differences_make_the_one_value_of_the_other(base: Json, value: Json) -> None:
    assert with_differences(base, differences(base, value)) == value


@given(value=VALUES)
def test_equal_values_do_not_differ(value: Json) -> None:
    assert not differences(value, value).as_dict()


def test_elements_of_lists_are_known_by_their_names() -> None:
    base: Json = {"clusters": [{"name": "a", "ttl": 1}, {"name": "gone"}, {"name": "z"}]}
    value: Json = {"clusters": [{"name": "a", "ttl": 2}, {"name": "new"}, {"name": "z"}]}

    assert differences(base, value).as_dict() == {
        "changed": {"/clusters/a/ttl": 2},
        "added": {"/clusters/new": {"name": "new"}},
        "removed": ["/clusters/gone"],
        "order": {"/clusters": ["a", "new", "z"]},
    }
