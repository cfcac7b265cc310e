"""The table of what a change can touch has each kind, and says it of all proxies."""

import pytest

from envoy_config.changes import (
    BY_HOST,
    EVERYTHING,
    OF_PATCHES,
    OF_WORKLOADS,
    TOUCHES,
    Changed,
    Part,
    Touches,
)
from istio_config.kinds.registry import KIND_NAMES
from mesh_model import RULE_KINDS


def test_each_kind_that_is_read_and_each_that_a_push_names_has_a_row() -> None:
    assert TOUCHES.keys() == {*KIND_NAMES, *Changed}


@pytest.mark.parametrize("kinds", [BY_HOST, OF_WORKLOADS, OF_PATCHES.keys()])
def test_each_kind_of_a_group_has_a_row(kinds: frozenset[str]) -> None:
    assert kinds <= TOUCHES.keys()


def test_what_several_changes_touch_is_what_each_of_them_touches() -> None:
    rows = [TOUCHES[kind.name] for kind in RULE_KINDS]
    both = Touches.union(rows)
    assert all(each <= whole for row in rows for each, whole in zip(row, both, strict=True))
    assert Touches.union([EVERYTHING, *rows]).sidecars == frozenset(Part)
    assert Touches.union([Touches()]) == Touches()
