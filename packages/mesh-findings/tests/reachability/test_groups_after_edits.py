"""Groups of values after some left and some came."""

from mesh_findings.reachability._by_key import regrouped

BEFORE = {"all": ("a", "b", "c"), "few": ("a",)}


def test_value_that_goes_and_comes_leaves_the_groups_as_they_are() -> None:
    assert regrouped(BEFORE, [("all", "b")], [("all", "b")]) is BEFORE


def test_values_leave_groups_and_join_others() -> None:
    found = regrouped(BEFORE, [("all", "b"), ("few", "a")], [("all", "d"), ("new", "b")])
    assert found == {"all": ("a", "c", "d"), "new": ("b",)}
