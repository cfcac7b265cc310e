from hypothesis import given
from hypothesis import strategies as st

from mesh_local.capture._subordinate_ids import NEEDED, IdRange, find_range, first_free, mapping

SUBUID = """\
alice:100000:65536
# bob:1:65536
bob:165536:100
bob:200000:65536
1234:300000:70000
broken
:::
"""


def test_the_first_range_of_a_user_that_is_large_enough_is_found() -> None:
    assert find_range(SUBUID, {"bob", "4"}) == IdRange(200000, 65536)


def test_a_range_may_be_given_to_the_number_of_a_user() -> None:
    assert find_range(SUBUID, {"carol", "1234"}) == IdRange(300000, 70000)


def test_a_user_without_a_range_has_none() -> None:
    assert find_range(SUBUID, {"carol", "7"}) is None


def test_what_is_proposed_is_behind_all_ranges() -> None:
    assert first_free(SUBUID) == 370000
    assert first_free("") == 0


def test_inside_the_user_is_root_and_the_subordinate_ids_follow() -> None:
    assert mapping(1000, IdRange(200000, 65536)) == ("0", "1000", "1", "1", "200000", "65536")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = find_range(text, {"me"})
    assert found is None or found.count >= NEEDED
    assert first_free(text) >= 0
