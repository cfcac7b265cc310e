"""Which stream leads, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xds_proxy.streams._leading_stream import MAX_STREAMS, Roster


class Streamlike:
    def __init__(self, process: int | None = None) -> None:
        self.process = process
        self.leads = False

    def lead(self) -> None:
        assert not self.leads
        self.leads = True

    def follow(self) -> None:
        assert self.leads
        self.leads = False


def test_the_newest_leads_and_an_older_one_takes_over() -> None:
    roster: Roster[Streamlike] = Roster()
    old, new = Streamlike(), Streamlike()
    assert roster.join(old) is None
    assert roster.join(new) is None
    assert (old.leads, new.leads) == (False, True)
    assert roster.leave(new)
    assert old.leads
    assert not roster.leave(old)
    assert roster.leader is None


def test_the_end_of_an_older_one_changes_nothing() -> None:
    roster: Roster[Streamlike] = Roster()
    old, new = Streamlike(), Streamlike()
    roster.join(old)
    roster.join(new)
    assert not roster.leave(old)
    assert roster.leader is new


def test_a_process_with_many_streams_ends_its_own_and_no_other_process_s() -> None:
    roster: Roster[Streamlike] = Roster()
    old, new = Streamlike(1), Streamlike(2)
    roster.join(old)
    roster.join(new)
    many = [Streamlike(3) for _ in range(100)]
    crowded_out = [one for each in many if (one := roster.join(each)) is not None]
    assert crowded_out == many[:-2]
    assert roster.members == (old, new, *many[-2:])
    newest = Streamlike(4)
    assert roster.join(newest) is many[-2]
    assert roster.join(Streamlike(5)) is old


@given(st.lists(st.one_of(st.just("join"), st.integers(0, 2 * MAX_STREAMS)), max_size=40))
def test_exactly_the_newest_leads_and_there_are_never_too_many(
    steps: list[str | int],
) -> None:
    roster: Roster[Streamlike] = Roster()
    alive: list[Streamlike] = []  # crowded out or not: they leave when they have ended
    for step in steps:
        if isinstance(step, str):
            newcomer = Streamlike()
            before = roster.members
            crowded_out = roster.join(newcomer)
            assert crowded_out is (before[0] if len(before) == MAX_STREAMS else None)
            alive.append(newcomer)
        elif step < len(alive):
            leaving = alive.pop(step)
            led = leaving is roster.leader
            assert roster.leave(leaving) is (led and roster.leader is not None)
            leaving.leads = False
        assert len(roster.members) <= MAX_STREAMS
        assert [stream for stream in alive if stream.leads] == list(roster.members[-1:])
