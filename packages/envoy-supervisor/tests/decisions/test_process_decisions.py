"""The decisions, event by event and by property."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from envoy_supervisor._config import CrashPolicy
from envoy_supervisor.decisions import _actions as actions
from envoy_supervisor.decisions import _events as events
from envoy_supervisor.decisions._process_decisions import decide
from envoy_supervisor.decisions._state import (
    DeadParent,
    Phase,
    ProcessState,
    Stage,
    SupervisorState,
)

POLICY = CrashPolicy(budget=3, window_s=60)


class Run:
    """A state, and the actions that followed the last event."""

    def __init__(self, policy: CrashPolicy = POLICY) -> None:
        self.policy = policy
        self.state = SupervisorState(wanted="a")
        self.now = 0.0
        self.did: tuple[actions.Action, ...] = ()
        self.tell(events.Tick())

    def tell(self, event: events.Event) -> tuple[actions.Action, ...]:
        self.state, self.did = decide(
            self.state, event, now=self.now, policy=self.policy, rng=random.Random(1)
        )
        return self.did

    def start_all(self) -> Run:
        for action in self.did:
            if isinstance(action, actions.Start):
                self.tell(events.BecameReady(action.process.number))
        return self

    @property
    def stages(self) -> list[tuple[int, Stage]]:
        return [(process.number, process.stage) for process in self.state.processes]


def test_a_new_version_starts_beside_the_one_that_serves() -> None:
    run = Run().start_all()
    assert run.tell(events.VersionRequested("b")) == (
        actions.Start(ProcessState(number=1, series=0, epoch=1, version="b")),
    )
    assert run.state.rolled_out is None
    assert run.tell(events.BecameReady(1)) == (actions.ScheduleParentShutdown(0),)
    assert run.stages == [(0, Stage.RETIRING), (1, Stage.READY)]
    assert run.state.rolled_out == "b"


def test_a_version_that_does_not_get_ready_makes_way_for_another() -> None:
    """Nothing serves, and it may wait for ever: nothing is lost with it."""
    run = Run()
    assert run.tell(events.VersionRequested("b")) == (actions.Terminate(0),)
    assert run.tell(events.BecameReady(0)) == ()
    assert run.tell(events.Exited(0)) == (
        actions.Start(ProcessState(number=1, series=1, epoch=0, version="b")),
    )
    # One that takes over has a limit of its own.
    run.start_all()
    run.tell(events.VersionRequested("c"))
    assert run.tell(events.VersionRequested("d")) == ()


def test_going_back_to_what_serves_settles_it() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    run.start_all()
    run.tell(events.VersionRequested("c"))
    assert run.state.rolled_out is None
    assert run.tell(events.VersionRequested("b")) == ()
    assert run.state.rolled_out == "b"


def test_the_same_version_again_is_nothing() -> None:
    run = Run().start_all()
    assert run.tell(events.VersionRequested("a")) == ()


def test_restarts_wait_until_the_one_before_has_left_and_only_the_last_request_counts() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    run.start_all()
    assert run.tell(events.VersionRequested("c")) == ()
    assert run.tell(events.VersionRequested("d")) == ()
    assert run.tell(events.Exited(0)) == (
        actions.Start(ProcessState(number=2, series=0, epoch=2, version="d")),
    )


def test_a_version_that_fails_leaves_the_old_one_serving() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("bad"))
    did = run.tell(events.Exited(1))
    assert did[:2] == (actions.ReportRefused("bad", 1), actions.ProbeAdmin(0))
    assert run.stages == [(0, Stage.READY)]
    assert run.state.wanted == "a"
    # The child may have closed the parent's admin interface: the last_good version takes over.
    assert isinstance(did[2], actions.WakeAt)
    run.now = did[2].when
    assert run.tell(events.Tick()) == (
        actions.Start(ProcessState(number=2, series=0, epoch=1, version="a")),
    )
    assert run.tell(events.BecameReady(2)) == (actions.ScheduleParentShutdown(0),)


def test_an_old_envoy_that_still_answers_is_not_replaced() -> None:
    """What failed had not come as far as its admin interface."""
    run = Run().start_all()
    run.tell(events.VersionRequested("bad"))
    run.tell(events.Exited(1))
    assert run.tell(events.AdminAnswered(0)) == ()
    run.now = 100
    assert run.tell(events.Tick()) == ()
    assert run.state.rolled_out == "a"


def test_an_answer_from_before_the_next_child_says_nothing() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("bad"))
    run.tell(events.Exited(1))
    run.tell(events.VersionRequested("b"))
    run.tell(events.AdminAnswered(0))
    assert run.state.admin_may_be_closed


def test_a_child_that_takes_too_long_is_killed_and_counts_as_failed() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("slow"))
    assert run.tell(events.ReadyTimedOut(1))[:2] == (
        actions.Kill(1),
        actions.ReportRefused("slow", 1),
    )
    assert run.stages == [(0, Stage.READY), (1, Stage.ENDING)]


def test_a_crash_is_answered_at_once_then_with_growing_waits_then_given_up() -> None:
    run = Run()
    run.start_all()
    delays = []
    for number in range(3):
        crashed = run.tell(events.Exited(number))[0]
        assert isinstance(crashed, actions.ReportCrashed)
        delays.append(crashed.delay_s)
        run.now = max(run.now, run.state.not_before)
        run.tell(events.Tick())
        run.state, _ = decide(
            run.state,
            events.BecameReady(number + 1),
            now=run.now,
            policy=run.policy,
            rng=random.Random(1),
        )
    assert delays[0] == 0
    assert 0 < delays[1] < delays[2]
    assert run.tell(events.Exited(3)) == ()
    assert (run.state.phase, run.state.gave_up_on) == (Phase.ENDED, 3)


def test_old_crashes_are_forgiven() -> None:
    run = Run()
    for number in range(20):
        run.tell(events.BecameReady(number))
        run.now += 61
        run.tell(events.Exited(number))
        run.tell(events.Tick())
    assert run.state.phase is Phase.RUNNING


def test_a_crash_starts_a_new_series_because_the_old_ones_sockets_are_gone() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    run.start_all()
    crashed, start = run.tell(events.Exited(1))
    assert isinstance(crashed, actions.ReportCrashed)
    assert start == actions.Start(ProcessState(number=2, series=1, epoch=0, version="b"))
    # The retiring parent has no child left to end it.
    assert run.tell(events.ParentShutdownDue(0)) == (actions.Terminate(0),)
    assert run.tell(events.ExitOverdue(0)) == (actions.Kill(0),)


def child_of_dead(number: int, epoch: int, version: str = "a") -> actions.Start:
    return actions.Start(
        ProcessState(number=number, series=0, epoch=epoch, version=version, parent_died=True)
    )


def test_a_process_whose_sockets_are_retained_is_followed_by_the_next_epoch() -> None:
    run = Run().start_all()
    crashed, start = run.tell(events.Exited(0, sockets_retained=True))
    assert crashed == actions.ReportCrashed(0, 0)
    assert start == child_of_dead(1, epoch=1)
    assert run.tell(events.BecameReady(1)) == ()
    # And so on.
    assert run.tell(events.Exited(1, sockets_retained=True))[0] == actions.ReportCrashed(
        1, run.state.not_before
    )
    assert run.state.dead_parent == DeadParent(series=0, epoch=1)
    run.now = run.state.not_before
    assert run.tell(events.Tick()) == (child_of_dead(2, epoch=2),)


def test_a_child_of_a_dead_process_that_fails_is_followed_by_a_new_series_at_once() -> None:
    run = Run().start_all()
    run.tell(events.Exited(0, sockets_retained=True))
    # Why it failed counts for nothing: perhaps it is the taking over.
    assert run.tell(events.Exited(1, final=True)) == (
        actions.Start(ProcessState(number=2, series=1, epoch=0, version="a")),
    )
    assert len(run.state.crashes) == 1
    assert run.tell(events.Exited(2, final=True)) == ()
    assert (run.state.phase, run.state.gave_up_on) == (Phase.ENDED, 2)


def test_a_child_of_a_dead_process_that_takes_too_long_is_followed_by_a_new_series() -> None:
    run = Run().start_all()
    run.tell(events.Exited(0, sockets_retained=True))
    assert run.tell(events.ReadyTimedOut(1)) == (actions.Kill(1),)
    assert run.tell(events.Exited(1)) == (
        actions.Start(ProcessState(number=2, series=1, epoch=0, version="a")),
    )


def test_a_child_of_a_dead_process_that_is_killed_counts_as_a_crash() -> None:
    strict = Run(CrashPolicy(budget=1)).start_all()
    strict.tell(events.Exited(0, sockets_retained=True))
    strict.tell(events.Exited(1, sockets_retained=True))
    assert strict.state.gave_up_on == 1
    run = Run(CrashPolicy(budget=2)).start_all()
    run.tell(events.Exited(0, sockets_retained=True))
    run.tell(events.Exited(1, sockets_retained=True))
    run.now = run.state.not_before
    assert run.tell(events.Tick()) == (child_of_dead(2, epoch=2),)


def test_a_parent_that_dies_before_its_child_serves_leaves_the_epoch_behind_the_child() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    assert run.tell(events.Exited(0, sockets_retained=True))[0] == actions.Kill(1)
    assert run.tell(events.Exited(1)) == (child_of_dead(2, epoch=2, version="b"),)


def test_a_child_of_a_dead_process_may_serve_while_that_ones_parent_still_finishes() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    run.start_all()
    assert run.tell(events.Exited(1, sockets_retained=True))[1] == child_of_dead(
        2, epoch=2, version="b"
    )
    run.start_all()
    assert run.stages == [(0, Stage.RETIRING), (2, Stage.READY)]
    assert run.tell(events.ParentShutdownDue(0)) == (actions.Terminate(0),)


def test_what_cannot_heal_is_not_tried_again() -> None:
    run = Run()
    assert run.tell(events.Exited(0, final=True)) == ()
    assert (run.state.phase, run.state.gave_up_on) == (Phase.ENDED, 0)


def test_no_budget_means_no_second_start() -> None:
    run = Run(CrashPolicy(budget=0)).start_all()
    run.tell(events.Exited(0))
    assert (run.state.phase, run.state.gave_up_on) == (Phase.ENDED, 0)


def test_stopping_ends_a_half_started_child_and_keeps_what_serves() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    # Asked to exit, an Envoy asks its parent to exit as well.
    assert run.tell(events.StopRequested()) == (actions.Kill(1),)
    assert run.state.admin_may_be_closed
    assert run.tell(events.DrainFinished()) == (actions.Terminate(0),)
    run.tell(events.Exited(1))
    run.tell(events.Exited(0))
    assert run.state.phase is Phase.ENDED


def test_a_crash_while_draining_is_the_end() -> None:
    run = Run().start_all()
    run.tell(events.StopRequested())
    assert run.tell(events.Exited(0)) == ()
    assert run.state.phase is Phase.ENDED


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
        self.sockets_retained = False
        self.state = SupervisorState(wanted="v0")
        self.tell(events.Tick())

    def tell(self, event: events.Event) -> None:
        before = self.state
        self.state, decided = decide(self.state, event, now=self.now, policy=POLICY, rng=self.rng)
        for action in decided:
            match action:
                case actions.Start(process):
                    assert not self.stop_asked
                    assert before.phase is Phase.RUNNING
                    assert process.number not in self.started
                    self.place_is_right(process)
                    self.sockets_retained = False
                    assert self.now >= before.not_before or isinstance(
                        event, events.VersionRequested | events.Exited
                    )
                    self.started.append(process.number)
                    self.alive.add(process.number)
                case (
                    actions.Terminate(number)
                    | actions.ScheduleParentShutdown(number)
                    | actions.ProbeAdmin(number)
                ):
                    assert number in self.alive
                case actions.Kill(number):
                    assert number in self.alive
                    self.killed.add(number)
                case actions.WakeAt(when):
                    assert when > self.now
                case actions.ReportRefused() | actions.ReportCrashed():
                    pass

    def place_is_right(self, process: ProcessState) -> None:
        """A first process is alone in its series; a child has a parent, or its retained sockets."""
        newest = self.newest_epoch.get(process.series, -1)
        parent = self.state.first(Stage.READY)
        if process.parent_died:
            assert self.sockets_retained
            assert parent is None
            assert process.epoch > newest
        elif process.epoch == 0:
            assert parent is None
            assert newest == -1
        else:
            assert parent is not None
            assert (process.series, process.epoch) == (parent.series, parent.epoch + 1)
        self.newest_epoch[process.series] = process.epoch

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), final=st.booleans(), sockets_retained=st.booleans())
    def a_process_ends(self, data: st.DataObject, *, final: bool, sockets_retained: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.alive)))
        process = self.state.process(number)
        assert process is not None
        died = process.stage is Stage.READY or (
            process.parent_died and process.stage is Stage.STARTING
        )
        sockets_retained = sockets_retained and not final and died
        self.sockets_retained = self.sockets_retained or sockets_retained
        self.alive.discard(number)
        self.killed.discard(number)
        self.tell(events.Exited(number, final=final, sockets_retained=sockets_retained))

    @precondition(lambda self: self.started)
    @rule(data=st.data())
    def an_event_of_any_process_dead_or_alive(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.started))
        possible: list[events.Event] = [
            events.ReadyTimedOut(number),
            events.ParentShutdownDue(number),
            events.ExitOverdue(number),
            events.AdminAnswered(number),
        ]
        if number in self.alive:
            possible.append(events.BecameReady(number))
        self.tell(data.draw(st.sampled_from(possible)))

    @rule(version=st.sampled_from(["v0", "v1", "v2"]))
    def another_version_is_wanted(self, version: str) -> None:
        self.tell(events.VersionRequested(version))

    @rule(seconds=st.floats(min_value=0, max_value=100))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.tell(events.Tick())

    @rule()
    def stop(self) -> None:
        self.stop_asked = True
        self.tell(events.StopRequested())

    @rule()
    def the_drain_is_over(self) -> None:
        self.stop_asked = True
        self.tell(events.DrainFinished())

    @invariant()
    def no_process_is_lost_and_none_is_too_many(self) -> None:
        processes = self.state.processes
        assert {process.number for process in processes} == self.alive
        stages = [process.stage for process in processes]
        assert stages.count(Stage.STARTING) <= 1
        assert stages.count(Stage.READY) <= 1
        assert len([stage for stage in stages if stage is not Stage.ENDING]) <= 3
        for process in processes:
            relatives = [m for m in processes if m.series == process.series]
            assert len([m for m in relatives if m.stage is not Stage.ENDING]) <= 2
            assert len({m.epoch for m in relatives if m.stage is not Stage.ENDING}) == len(
                [m for m in relatives if m.stage is not Stage.ENDING]
            )

    @invariant()
    def something_is_always_under_way(self) -> None:
        """While running there is a process that serves or will, or a time to start one."""
        if self.state.phase is Phase.RUNNING and not self.state.processes:
            assert self.state.not_before > self.now

    def teardown(self) -> None:
        """From any state, a stop comes to its end."""
        self.stop_asked = True
        self.tell(events.StopRequested())
        self.tell(events.DrainFinished())
        for number in sorted(self.alive):
            self.tell(events.ExitOverdue(number))
            assert number in self.killed
            self.alive.discard(number)
            self.tell(events.Exited(number))
        assert self.state.phase is Phase.ENDED
        assert self.state.processes == ()


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


class ManyMoreHistories(AnyHistory):
    """The same, with as many histories as find what few do not."""


TestManyMoreHistories = pytest.mark.slow(ManyMoreHistories.TestCase)
TestManyMoreHistories.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


def test_a_child_whose_parent_dies_is_not_waited_for() -> None:
    run = Run().start_all()
    run.tell(events.VersionRequested("b"))
    did = run.tell(events.Exited(0))
    assert did[0] == actions.Kill(1)
    assert run.stages == [(1, Stage.ENDING)]
    assert run.tell(events.Exited(1)) == (
        actions.Start(ProcessState(number=2, series=1, epoch=0, version="b")),
    )
