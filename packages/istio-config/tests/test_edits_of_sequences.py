"""The difference of two sequences, by identity."""

from hypothesis import given
from hypothesis import strategies as st

from istio_config.edits import edits, edits_in_order, replacements, with_replaced

ELEMENTS = [[number // 2] for number in range(40)]
"""Pairs of equal elements that are not the same."""
SEQUENCES = st.lists(st.sampled_from(range(len(ELEMENTS))), unique=True).map(
    lambda places: [ELEMENTS[at] for at in places]
)


def new_to(elements: list[list[int]], kept: list[list[int]]) -> list[list[int]]:
    known = set(map(id, kept))
    return [each for each in elements if id(each) not in known]


EDITED = st.builds(
    lambda kept, at, by: (kept, [*kept[:at], *new_to(by, kept), *kept[at + 1 :]]),
    SEQUENCES,
    st.integers(0, 20),
    SEQUENCES,
)


def identities(elements: list[list[int]]) -> list[int]:
    return list(map(id, elements))


@given(st.one_of(EDITED, st.tuples(SEQUENCES, SEQUENCES)))
def test_edits_are_what_one_of_two_sequences_has_alone(
    pair: tuple[list[list[int]], list[list[int]]],
) -> None:
    before, after = pair
    gone, come = edits(before, after)
    known, here = set(identities(before)), set(identities(after))
    assert identities(gone) == [each for each in identities(before) if each not in here]
    assert identities(come) == [each for each in identities(after) if each not in known]
    assert bool(edits(before, after)) is (known != here)


@given(
    st.one_of(
        EDITED,
        st.tuples(SEQUENCES, SEQUENCES),
        SEQUENCES.flatmap(lambda elements: st.tuples(st.just(elements), st.permutations(elements))),
    )
)
def test_what_no_edit_in_order_names_is_in_both_sequences_in_the_same_order(
    pair: tuple[list[list[int]], list[list[int]]],
) -> None:
    before, after = pair
    found = edits_in_order(before, after)
    gone, come = set(identities(found.gone)), set(identities(found.come))
    left = [each for each in identities(before) if each not in gone]
    assert left == [each for each in identities(after) if each not in come]
    assert gone >= set(identities(before)) - set(identities(after))
    assert come >= set(identities(after)) - set(identities(before))
    assert gone <= set(identities(before))
    assert come <= set(identities(after))
    in_places = len(before) == len(after) and all(
        one == other or (one in gone and other in come)
        for one, other in zip(identities(before), identities(after), strict=True)
    )
    assert in_places or not found.are_replacements
    if found.are_replacements:
        pairs = zip(found.gone, found.come, strict=True)
        assert [*pairs] == replacements(before, after)


@given(EDITED)
def test_edits_in_order_are_the_edits_where_others_keep_their_order(
    pair: tuple[list[list[int]], list[list[int]]],
) -> None:
    before, after = pair
    kept = set(identities(before)) & set(identities(after))
    in_order = [each for each in identities(before) if each in kept] == [
        each for each in identities(after) if each in kept
    ]
    if in_order:
        gone, come, _ = edits_in_order(before, after)
        wanted = edits(before, after)
        assert identities(gone) == identities(wanted.gone)
        assert identities(come) == identities(wanted.come)


@given(SEQUENCES, SEQUENCES)
def test_replacements_are_the_pairs_that_are_not_the_same(
    before: list[list[int]], after: list[list[int]]
) -> None:
    found = replacements(before, after)
    if len(before) != len(after):
        assert found is None
    else:
        wanted = [pair for pair in zip(before, after, strict=True) if pair[0] is not pair[1]]
        assert found == wanted


def test_many_replacements_are_found_as_few_are() -> None:
    before, after = [[1] for _ in range(500)], [[1] for _ in range(500)]
    gone, come = edits(before, after)
    assert identities(gone) == identities(before)
    assert identities(come) == identities(after)


@given(SEQUENCES.filter(bool), st.data())
def test_an_element_is_replaced_in_its_place(before: list[list[int]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(before) - 1))
    new, absent = [7], list(before[at])
    found = with_replaced(tuple(before), [(before[at], new), (absent, [8])])
    assert identities(list(found)) == identities([*before[:at], new, *before[at + 1 :]])
