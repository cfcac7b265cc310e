"""The decisions, event by event and by property."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from envoy_supervisor._config import CrashPolicy
from envoy_supervisor.decisions import _events as news
from envoy_supervisor.decisions._process_decisions import advance
from envoy_supervisor.decisions._process_states import Fleet, Legacy, Member, Phase, Stage

POLICY = CrashPolicy(budget=3, window_s=60)


class Run:
    """A fleet, and what was done."""

    def __init__(self, policy: CrashPolicy = POLICY) -> None:
        self.policy = policy
        self.fleet = Fleet(wanted="a")
        self.now = 0.0
        self.did: tuple[news.Action, ...] = ()
        self.tell(news.Tick())

    def tell(self, event: news.Event) -> tuple[news.Action, ...]:
        self.fleet, self.did = advance(
            self.fleet, event, now=self.now, policy=self.policy, rng=random.Random(1)
        )
        return self.did

    def start_all(self) -> Run:
        for action in self.did:
            if isinstance(action, news.Start):
                self.tell(news.BecameReady(action.member.number))
        return self

    @property
    def stages(self) -> list[tuple[int, Stage]]:
        return [(member.number, member.stage) for member in self.fleet.members]


def test_a_new_version_starts_beside_the_one_that_serves() -> None:
    run = Run().start_all()
    assert run.tell(news.Wanted("b")) == (
        news.Start(Member(number=1, family=0, epoch=1, version="b")),
    )
    assert run.fleet.settled is None
    assert run.tell(news.BecameReady(1)) == (news.Retire(0),)
    assert run.stages == [(0, Stage.RETIRING), (1, Stage.READY)]
    assert run.fleet.settled == "b"


def test_a_version_that_does_not_get_ready_makes_way_for_another() -> None:
    """Nothing serves, and it may wait for ever: nothing is lost with it."""
    run = Run()
    assert run.tell(news.Wanted("b")) == (news.Terminate(0),)
    assert run.tell(news.BecameReady(0)) == ()
    assert run.tell(news.Exited(0)) == (
        news.Start(Member(number=1, family=1, epoch=0, version="b")),
    )
    # One that takes over has a limit of its own.
    run.start_all()
    run.tell(news.Wanted("c"))
    assert run.tell(news.Wanted("d")) == ()


def test_going_back_to_what_serves_settles_it() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    run.start_all()
    run.tell(news.Wanted("c"))
    assert run.fleet.settled is None
    assert run.tell(news.Wanted("b")) == ()
    assert run.fleet.settled == "b"


def test_the_same_version_again_is_nothing() -> None:
    run = Run().start_all()
    assert run.tell(news.Wanted("a")) == ()


def test_restarts_wait_until_the_one_before_has_left_and_only_the_last_wish_counts() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    run.start_all()
    assert run.tell(news.Wanted("c")) == ()
    assert run.tell(news.Wanted("d")) == ()
    assert run.tell(news.Exited(0)) == (
        news.Start(Member(number=2, family=0, epoch=2, version="d")),
    )


def test_a_version_that_fails_leaves_the_old_one_serving() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("bad"))
    did = run.tell(news.Exited(1))
    assert did[:2] == (news.Refused("bad", 1), news.Probe(0))
    assert run.stages == [(0, Stage.READY)]
    assert run.fleet.wanted == "a"
    # The child may have closed the parent's admin interface: the good version takes over.
    assert isinstance(did[2], news.WakeAt)
    run.now = did[2].when
    assert run.tell(news.Tick()) == (news.Start(Member(number=2, family=0, epoch=1, version="a")),)
    assert run.tell(news.BecameReady(2)) == (news.Retire(0),)


def test_an_old_envoy_that_still_answers_is_not_replaced() -> None:
    """What failed had not come as far as its admin interface."""
    run = Run().start_all()
    run.tell(news.Wanted("bad"))
    run.tell(news.Exited(1))
    assert run.tell(news.Answers(0)) == ()
    run.now = 100
    assert run.tell(news.Tick()) == ()
    assert run.fleet.settled == "a"


def test_an_answer_from_before_the_next_child_says_nothing() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("bad"))
    run.tell(news.Exited(1))
    run.tell(news.Wanted("b"))
    run.tell(news.Answers(0))
    assert run.fleet.blind


def test_a_child_that_takes_too_long_is_killed_and_counts_as_failed() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("slow"))
    assert run.tell(news.TookTooLong(1))[:2] == (news.Kill(1), news.Refused("slow", 1))
    assert run.stages == [(0, Stage.READY), (1, Stage.ENDING)]


def test_a_crash_is_answered_at_once_then_with_growing_waits_then_given_up() -> None:
    run = Run()
    run.start_all()
    delays = []
    for number in range(3):
        crashed = run.tell(news.Exited(number))[0]
        assert isinstance(crashed, news.Crashed)
        delays.append(crashed.delay_s)
        run.now = max(run.now, run.fleet.not_before)
        run.tell(news.Tick())
        run.fleet, _ = advance(
            run.fleet,
            news.BecameReady(number + 1),
            now=run.now,
            policy=run.policy,
            rng=random.Random(1),
        )
    assert delays[0] == 0
    assert 0 < delays[1] < delays[2]
    assert run.tell(news.Exited(3)) == ()
    assert (run.fleet.phase, run.fleet.verdict) == (Phase.ENDED, 3)


def test_old_crashes_are_forgiven() -> None:
    run = Run()
    for number in range(20):
        run.tell(news.BecameReady(number))
        run.now += 61
        run.tell(news.Exited(number))
        run.tell(news.Tick())
    assert run.fleet.phase is Phase.RUNNING


def test_a_crash_starts_a_new_family_because_the_old_ones_sockets_are_gone() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    run.start_all()
    crashed, start = run.tell(news.Exited(1))
    assert isinstance(crashed, news.Crashed)
    assert start == news.Start(Member(number=2, family=1, epoch=0, version="b"))
    # The retiring parent has no child left to end it.
    assert run.tell(news.RetireDue(0)) == (news.Terminate(0),)
    assert run.tell(news.Overdue(0)) == (news.Kill(0),)


def heir(number: int, epoch: int, version: str = "a") -> news.Start:
    return news.Start(Member(number=number, family=0, epoch=epoch, version=version, heir=True))


def test_who_dies_and_leaves_its_sockets_has_an_heir() -> None:
    run = Run().start_all()
    crashed, start = run.tell(news.Exited(0, kept=True))
    assert crashed == news.Crashed(0, 0)
    assert start == heir(1, epoch=1)
    assert run.tell(news.BecameReady(1)) == ()
    # And so on.
    assert run.tell(news.Exited(1, kept=True))[0] == news.Crashed(1, run.fleet.not_before)
    assert run.fleet.legacy == Legacy(family=0, epoch=1)
    run.now = run.fleet.not_before
    assert run.tell(news.Tick()) == (heir(2, epoch=2),)


def test_an_heir_that_fails_is_followed_by_a_new_family_at_once() -> None:
    run = Run().start_all()
    run.tell(news.Exited(0, kept=True))
    # Why it failed counts for nothing: perhaps it is the taking over.
    assert run.tell(news.Exited(1, final=True)) == (
        news.Start(Member(number=2, family=1, epoch=0, version="a")),
    )
    assert len(run.fleet.crashes) == 1
    assert run.tell(news.Exited(2, final=True)) == ()
    assert (run.fleet.phase, run.fleet.verdict) == (Phase.ENDED, 2)


def test_an_heir_that_takes_too_long_is_followed_by_a_new_family() -> None:
    run = Run().start_all()
    run.tell(news.Exited(0, kept=True))
    assert run.tell(news.TookTooLong(1)) == (news.Kill(1),)
    assert run.tell(news.Exited(1)) == (
        news.Start(Member(number=2, family=1, epoch=0, version="a")),
    )


def test_an_heir_that_is_killed_has_an_heir_and_counts_as_a_crash() -> None:
    strict = Run(CrashPolicy(budget=1)).start_all()
    strict.tell(news.Exited(0, kept=True))
    strict.tell(news.Exited(1, kept=True))
    assert strict.fleet.verdict == 1
    run = Run(CrashPolicy(budget=2)).start_all()
    run.tell(news.Exited(0, kept=True))
    run.tell(news.Exited(1, kept=True))
    run.now = run.fleet.not_before
    assert run.tell(news.Tick()) == (heir(2, epoch=2),)


def test_a_parent_that_dies_before_its_child_serves_leaves_the_epoch_behind_the_child() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    assert run.tell(news.Exited(0, kept=True))[0] == news.Kill(1)
    assert run.tell(news.Exited(1)) == (heir(2, epoch=2, version="b"),)


def test_an_heir_may_serve_while_the_dead_ones_parent_still_finishes() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    run.start_all()
    assert run.tell(news.Exited(1, kept=True))[1] == heir(2, epoch=2, version="b")
    run.start_all()
    assert run.stages == [(0, Stage.RETIRING), (2, Stage.READY)]
    assert run.tell(news.RetireDue(0)) == (news.Terminate(0),)


def test_what_cannot_heal_is_not_tried_again() -> None:
    run = Run()
    assert run.tell(news.Exited(0, final=True)) == ()
    assert (run.fleet.phase, run.fleet.verdict) == (Phase.ENDED, 0)


def test_no_budget_means_no_second_start() -> None:
    run = Run(CrashPolicy(budget=0)).start_all()
    run.tell(news.Exited(0))
    assert (run.fleet.phase, run.fleet.verdict) == (Phase.ENDED, 0)


def test_stopping_ends_a_half_started_child_and_keeps_what_serves() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    # Told to exit, an Envoy tells its parent to exit as well.
    assert run.tell(news.StopAsked()) == (news.Kill(1),)
    assert run.fleet.blind
    assert run.tell(news.DrainOver()) == (news.Terminate(0),)
    run.tell(news.Exited(1))
    run.tell(news.Exited(0))
    assert run.fleet.phase is Phase.ENDED


def test_a_crash_while_draining_is_the_end() -> None:
    run = Run().start_all()
    run.tell(news.StopAsked())
    assert run.tell(news.Exited(0)) == ()
    assert run.fleet.phase is Phase.ENDED


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens, in whatever order, the processes stay countable and the end comes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.rng = random.Random(0)
        self.alive: set[int] = set()
        self.killed: set[int] = set()
        self.started: list[int] = []
        self.stop_asked = False
        self.newest_epoch: dict[int, int] = {}
        self.kept = False
        self.fleet = Fleet(wanted="v0")
        self.tell(news.Tick())

    def tell(self, event: news.Event) -> None:
        before = self.fleet
        self.fleet, actions = advance(self.fleet, event, now=self.now, policy=POLICY, rng=self.rng)
        for action in actions:
            match action:
                case news.Start(member):
                    assert not self.stop_asked
                    assert before.phase is Phase.RUNNING
                    assert member.number not in self.started
                    self.place_is_right(member)
                    self.kept = False
                    assert self.now >= before.not_before or isinstance(
                        event, news.Wanted | news.Exited
                    )
                    self.started.append(member.number)
                    self.alive.add(member.number)
                case news.Terminate(number) | news.Retire(number) | news.Probe(number):
                    assert number in self.alive
                case news.Kill(number):
                    assert number in self.alive
                    self.killed.add(number)
                case news.WakeAt(when):
                    assert when > self.now
                case news.Refused() | news.Crashed():
                    pass

    def place_is_right(self, member: Member) -> None:
        """A first one has its family to itself, a child a parent, an heir what was left."""
        newest = self.newest_epoch.get(member.family, -1)
        parent = self.fleet.first(Stage.READY)
        if member.heir:
            assert self.kept
            assert parent is None
            assert member.epoch > newest
        elif member.epoch == 0:
            assert parent is None
            assert newest == -1
        else:
            assert parent is not None
            assert (member.family, member.epoch) == (parent.family, parent.epoch + 1)
        self.newest_epoch[member.family] = member.epoch

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), final=st.booleans(), kept=st.booleans())
    def a_process_ends(self, data: st.DataObject, final: bool, kept: bool) -> None:  # noqa: FBT001
        number = data.draw(st.sampled_from(sorted(self.alive)))
        member = self.fleet.member(number)
        assert member is not None
        died = member.stage is Stage.READY or (member.heir and member.stage is Stage.STARTING)
        kept = kept and not final and died
        self.kept = self.kept or kept
        self.alive.discard(number)
        self.killed.discard(number)
        self.tell(news.Exited(number, final=final, kept=kept))

    @precondition(lambda self: self.started)
    @rule(data=st.data())
    def news_of_any_process_dead_or_alive(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.started))
        events: list[news.Event] = [
            news.TookTooLong(number),
            news.RetireDue(number),
            news.Overdue(number),
            news.Answers(number),
        ]
        if number in self.alive:
            events.append(news.BecameReady(number))
        self.tell(data.draw(st.sampled_from(events)))

    @rule(version=st.sampled_from(["v0", "v1", "v2"]))
    def another_version_is_wanted(self, version: str) -> None:
        self.tell(news.Wanted(version))

    @rule(seconds=st.floats(min_value=0, max_value=100))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.tell(news.Tick())

    @rule()
    def stop(self) -> None:
        self.stop_asked = True
        self.tell(news.StopAsked())

    @rule()
    def the_drain_is_over(self) -> None:
        self.stop_asked = True
        self.tell(news.DrainOver())

    @invariant()
    def no_process_is_lost_and_none_is_too_many(self) -> None:
        members = self.fleet.members
        assert {member.number for member in members} == self.alive
        stages = [member.stage for member in members]
        assert stages.count(Stage.STARTING) <= 1
        assert stages.count(Stage.READY) <= 1
        assert len([stage for stage in stages if stage is not Stage.ENDING]) <= 3
        for member in members:
            relatives = [m for m in members if m.family == member.family]
            assert len([m for m in relatives if m.stage is not Stage.ENDING]) <= 2
            assert len({m.epoch for m in relatives if m.stage is not Stage.ENDING}) == len(
                [m for m in relatives if m.stage is not Stage.ENDING]
            )

    @invariant()
    def something_is_always_under_way(self) -> None:
        """While running there is a process that serves or will, or a time to start one."""
        if self.fleet.phase is Phase.RUNNING and not self.fleet.members:
            assert self.fleet.not_before > self.now

    def teardown(self) -> None:
        """From any state, a stop comes to its end."""
        self.stop_asked = True
        self.tell(news.StopAsked())
        self.tell(news.DrainOver())
        for number in sorted(self.alive):
            self.tell(news.Overdue(number))
            assert number in self.killed
            self.alive.discard(number)
            self.tell(news.Exited(number))
        assert self.fleet.phase is Phase.ENDED
        assert self.fleet.members == ()


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_child_whose_parent_dies_is_not_waited_for() -> None:
    run = Run().start_all()
    run.tell(news.Wanted("b"))
    did = run.tell(news.Exited(0))
    assert did[0] == news.Kill(1)
    assert run.stages == [(1, Stage.ENDING)]
    assert run.tell(news.Exited(1)) == (
        news.Start(Member(number=2, family=1, epoch=0, version="b")),
    )
