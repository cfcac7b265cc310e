"""A refused response in parts: which resources are bad, and that the others get through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xds_proxy.protocol._resources import Resource
from xds_proxy.quarantine._parts import Group, Parts, with_last_good


def resources(names: range) -> tuple[Resource, ...]:
    return tuple(Resource(f"r{number}", "", b"%d" % number) for number in names)


@given(
    count=st.integers(1, 300),
    bad=st.sets(st.integers(0, 299), max_size=12),
    known=st.sets(st.integers(0, 299), max_size=4),
    renewed=st.dictionaries(st.integers(0, 60), st.integers(0, 299), max_size=6),
)
def test_just_the_bad_ones_are_found_and_all_others_are_taken(
    *, count: int, bad: set[int], known: set[int], renewed: dict[int, int]
) -> None:
    every = resources(range(count))
    refuses = {f"r{number}" for number in bad}
    parts = Parts(version="1", generation=1)
    assert parts.next() is None
    parts.begin(every, {f"r{number}" for number in known})
    taken: set[str] = set()
    gone: set[str] = set()
    given_parts = 0
    while (group := parts.next()) is not None:
        names = {each.name for each in group.resources}
        assert not names & gone, "a newer response has these"
        given_parts += 1
        if names & refuses:
            found = parts.on_nack(group, "no")
            assert (found is None) == (len(names) > 1)
        else:
            parts.on_ack()
            taken |= names
        if given_parts in renewed:
            name = f"r{renewed[given_parts]}"
            gone.add(name)
            parts.renew([name])
    everything = {each.name for each in every}
    assert parts.finished
    assert taken | set(parts.found) | gone >= everything
    assert set(parts.found) <= refuses
    assert everything - refuses - gone <= taken
    # Eight parts of eight, and so on: a bad one among 300 costs no more than three dozen.
    assert given_parts <= 9 + (len(bad) + len(known)) * 25


def test_the_last_good_one_in_the_place_of_a_bad_one_is_not_bad_itself() -> None:
    (bad, good) = resources(range(2))
    parts = Parts(version="1", generation=1)
    parts.begin(())
    parts.give(good)
    group = parts.next()
    assert group == Group((good,), is_last_good=True)
    assert parts.on_nack(group, "no") is None
    assert parts.finished
    assert not parts.found
    assert bad.name not in parts.found


def test_bad_ones_are_replaced_or_left_out() -> None:
    every = resources(range(3))
    good = Resource("r1", "saved-1", b"good")
    assert with_last_good(every, ["r1", "r2"], {"r1": good}) == (every[0], good)
