"""The schedule: the same for the same seed, and no two faults that may not be at once."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from mesh_chaos._schedule import CRASHES_APART_S, Fault, Kind, apart_s, schedule

SERVICES = {"caller": "caller", "backend-1": "backend", "backend-2": "backend", "store": "store"}
TARGETS = {
    Kind.RESOLVER_DEAD: ["first", "second"],
    Kind.RESOLVER_LYING: ["first", "second"],
}
seeds = st.integers(min_value=0, max_value=1 << 31)
lengths = st.floats(min_value=0, max_value=150)
some_kinds = st.lists(st.sampled_from(Kind), unique=True)


def drawn(seed: int, seconds: float, kinds: list[Kind]) -> tuple[Fault, ...]:
    return schedule(seed, seconds=seconds, services=SERVICES, kinds=kinds, targets=TARGETS)


@given(seeds, lengths, some_kinds)
def test_the_same_seed_gives_the_same_schedule(
    seed: int, seconds: float, kinds: list[Kind]
) -> None:
    assert drawn(seed, seconds, kinds) == drawn(seed, seconds, kinds)


@given(seeds, lengths, some_kinds)
def test_faults_that_may_not_be_at_once_are_apart(
    seed: int, seconds: float, kinds: list[Kind]
) -> None:
    for first, second in combinations(drawn(seed, seconds, kinds), 2):
        assert first.at_s <= second.at_s
        apart = apart_s(first, second, SERVICES)
        if apart is not None:
            assert second.at_s >= round(first.ends_s + apart, 2) - 0.011


@given(seeds, lengths, some_kinds)
def test_every_fault_is_over_within_the_time(seed: int, seconds: float, kinds: list[Kind]) -> None:
    for fault in drawn(seed, seconds, kinds):
        assert 0 <= fault.at_s <= fault.ends_s <= seconds
        assert fault.kind in kinds


@given(seeds)
@settings(max_examples=5)
def test_every_kind_comes_up_in_an_hour(seed: int) -> None:
    faults = drawn(seed, 3600, list(Kind))
    assert {each.kind for each in faults} == set(Kind)
    for kind, targets in TARGETS.items():
        assert {each.target for each in faults if each.kind is kind} <= set(targets)


def one(kind: Kind, target: str) -> Fault:
    return Fault(number=1, kind=kind, target=target, at_s=0, lasts_s=0, draw=0)


def test_replicas_of_a_service_are_not_away_at_once() -> None:
    first, second = one(Kind.AGENT_KILLED, "backend-1"), one(Kind.ENVOY_STOPPED, "backend-2")
    assert apart_s(first, second, SERVICES)
    assert apart_s(first, one(Kind.ENVOY_STOPPED, "store"), SERVICES) is None


def test_one_resolver_answers_while_the_other_fails() -> None:
    first, second = one(Kind.RESOLVER_DEAD, "first"), one(Kind.RESOLVER_LYING, "second")
    assert apart_s(first, second, SERVICES)


def test_an_agents_crash_budget_is_not_used_up() -> None:
    first, second = one(Kind.ENVOY_KILLED, "store"), one(Kind.ENVOY_OUT_OF_MEMORY, "store")
    assert apart_s(first, second, SERVICES) == CRASHES_APART_S


def test_a_workload_may_die_while_the_control_plane_is_away() -> None:
    away = one(Kind.CONTROL_PLANE_AWAY, "control plane")
    assert apart_s(away, one(Kind.AGENT_KILLED, "store"), SERVICES) is None


def test_nothing_is_asked_of_a_control_plane_that_is_away() -> None:
    away = one(Kind.CONTROL_PLANE_AWAY, "control plane")
    assert apart_s(away, one(Kind.HOT_RESTART, "store"), SERVICES)
    assert apart_s(away, one(Kind.WRONG_EDIT, "configuration"), SERVICES)
