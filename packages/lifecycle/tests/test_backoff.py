import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_lifecycle import Backoff


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    initial_s = draw(st.floats(0.001, 10))
    return Backoff(
        initial_s=initial_s,
        maximum_s=draw(st.floats(initial_s, 1000)),
        multiplier=draw(st.floats(1, 5)),
        jitter=draw(st.floats(0, 0.9)),
    )


@given(backoffs(), st.integers())
def test_every_delay_lies_within_the_spread_and_under_the_ceiling(
    backoff: Backoff, seed: int
) -> None:
    base = backoff.initial_s
    for delay in itertools.islice(backoff.delays(random.Random(seed)), 40):
        assert delay <= backoff.maximum_s
        assert delay >= min(base * (1 - backoff.jitter), backoff.maximum_s) * (1 - 1e-9)
        assert delay <= base * (1 + backoff.jitter) * (1 + 1e-9)
        base = min(base * backoff.multiplier, backoff.maximum_s)


def test_delays_without_jitter_grow_to_the_ceiling() -> None:
    backoff = Backoff(initial_s=1, maximum_s=5, multiplier=2, jitter=0)
    assert list(itertools.islice(backoff.delays(), 5)) == [1, 2, 4, 5, 5]


def test_two_iterators_are_independent() -> None:
    backoff = Backoff(jitter=0)
    first, second = backoff.delays(), backoff.delays()
    next(first)
    assert next(second) == 0.5


@pytest.mark.parametrize(
    ("initial_s", "maximum_s", "multiplier", "jitter"),
    [(0, 1, 2, 0), (2, 1, 2, 0), (1, 2, 0.5, 0), (1, 2, 2, 1), (1, 2, 2, -0.1)],
)
def test_values_that_make_no_sense_are_refused(
    initial_s: float, maximum_s: float, multiplier: float, jitter: float
) -> None:
    with pytest.raises(ValueError, match="backoff needs"):
        Backoff(initial_s=initial_s, maximum_s=maximum_s, multiplier=multiplier, jitter=jitter)
