"""Which connections a port has room for; many processes of one user are one caller too."""

import os

from hypothesis import given
from hypothesis import strategies as st

from mesh_listening import UNIX_LIMITS, ConnectionLimits, PeerCredentials, Reason
from mesh_listening.limits._admission import (
    Admission,
    Full,
    Share,
    shares_of_address,
    shares_of_process,
)

LIMITS = ConnectionLimits(port=40, peer=10)
OTHER = os.geteuid() + 1


def process(pid: int, uid: int) -> tuple[Share, ...]:
    return shares_of_process(PeerCredentials(pid=pid, uid=uid, gid=0), LIMITS)


def test_another_user_has_half_of_the_port_however_many_processes_it_has() -> None:
    admission = Admission(LIMITS)
    for pid in range(1, 21):
        assert admission.admit(pid, process(pid, OTHER)) is None
    assert admission.admit(21, process(21, OTHER)) == Full(Reason.PEER_FULL, f"uid {OTHER}")
    assert admission.admit(22, process(22, OTHER + 1)) is None
    assert admission.admit(23, process(23, os.geteuid())) is None


def test_our_own_user_is_counted_by_process_only() -> None:
    (one,) = process(7, os.geteuid())
    assert one == Share(f"pid 7 uid {os.geteuid()}", LIMITS.peer)


def test_a_user_never_has_less_than_one_of_its_processes() -> None:
    assert UNIX_LIMITS.user == UNIX_LIMITS.port // 2
    assert ConnectionLimits(port=2, peer=2).user == 2


def test_one_address_is_held_to_its_part_and_all_together_to_the_port() -> None:
    limits = ConnectionLimits(port=3, peer=2)
    admission = Admission(limits)
    one, other = (shares_of_address(name, limits) for name in ("10.0.0.1", "10.0.0.2"))
    assert admission.admit("a", one) is None
    assert admission.admit("b", one) is None
    assert admission.admit("c", one) == Full(Reason.PEER_FULL, "10.0.0.1")
    assert admission.admit("d", other) is None
    assert admission.admit("e", other) == Full(Reason.PORT_FULL, None)
    assert (admission.open_connections, admission.connections_of("10.0.0.1")) == (3, 2)
    admission.release("c")  # was never admitted
    admission.release("a")
    assert admission.admit("e", other) is None


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([OTHER, os.geteuid()])), max_size=60))
def test_released_connections_leave_nothing(callers: list[tuple[int, int]]) -> None:
    admission = Admission(LIMITS)
    held: dict[int, tuple[Share, ...]] = {}
    for number, (pid, uid) in enumerate(callers):
        shares = process(pid, uid)
        if admission.admit(number, shares) is None:
            held[number] = shares
    assert admission.open_connections == len(held) <= LIMITS.port
    for shares in held.values():
        assert all(0 < admission.connections_of(each.name) <= each.most for each in shares)
    for number in held:
        admission.release(number)
    assert admission.open_connections == 0
    assert not admission._of_share
