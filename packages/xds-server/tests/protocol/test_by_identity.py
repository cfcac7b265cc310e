"""Values of objects by identity: found by the object itself, and gone with it."""

import gc

from xds_server.protocol._by_identity import ByIdentity


def test_value_is_found_by_the_object_and_not_by_an_equal_one() -> None:
    kept = ByIdentity[frozenset[str], int]()
    names = frozenset({"a", "b"})
    kept.keep(names, 1)
    assert kept.get(names) == 1
    assert kept.get(frozenset({"a", "b"})) is None


def test_later_value_replaces_the_one_before() -> None:
    kept = ByIdentity[frozenset[str], int]()
    names = frozenset({"a"})
    kept.keep(names, 1)
    kept.keep(names, 2)
    gc.collect()
    assert (kept.get(names), len(kept)) == (2, 1)


def test_value_goes_with_its_object() -> None:
    kept = ByIdentity[frozenset[int], int]()
    for number in range(1_000):
        kept.keep(frozenset({number, -number - 1}), number)
    gc.collect()
    assert len(kept) <= 1
