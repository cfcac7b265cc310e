"""Under what connections are counted, so that many processes of one user are one caller too."""

import os

from hypothesis import given
from hypothesis import strategies as st

from mesh_listening import UNIX_LIMITS, ConnectionLimits, PeerCredentials
from mesh_listening.limits._shares import Share, Shares, shares_of_process

LIMITS = ConnectionLimits(port=40, peer=10)
OTHER = os.geteuid() + 1


def process(pid: int, uid: int) -> PeerCredentials:
    return PeerCredentials(pid=pid, uid=uid, gid=0)


def test_another_user_has_half_of_the_port_however_many_processes_it_has() -> None:
    shares = Shares()
    for pid in range(1, 21):
        one = shares_of_process(process(pid, OTHER), LIMITS)
        assert shares.full(one) is None
        shares.take(one)
    assert shares.full(shares_of_process(process(21, OTHER), LIMITS)) == f"uid {OTHER}"
    assert shares.full(shares_of_process(process(21, OTHER + 1), LIMITS)) is None
    assert shares.full(shares_of_process(process(21, os.geteuid()), LIMITS)) is None


def test_our_own_user_is_counted_by_process_only() -> None:
    (one,) = shares_of_process(process(7, os.geteuid()), LIMITS)
    assert one == Share(f"pid 7 uid {os.geteuid()}", LIMITS.peer)


def test_a_user_never_has_less_than_one_of_its_processes() -> None:
    assert UNIX_LIMITS.user == UNIX_LIMITS.port // 2
    assert ConnectionLimits(port=2, peer=2).user == 2


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([OTHER, os.geteuid()])), max_size=60))
def test_what_is_taken_and_given_back_leaves_nothing(callers: list[tuple[int, int]]) -> None:
    shares, held = Shares(), []
    for pid, uid in callers:
        one = shares_of_process(process(pid, uid), LIMITS)
        if shares.full(one) is None:
            shares.take(one)
            held.append(one)
    for one in held:
        assert all(0 < shares.taken(each.name) <= each.most for each in one)
    for one in held:
        shares.give_back(one)
    assert not shares._taken
