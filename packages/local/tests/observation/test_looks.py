"""Workloads of a mesh are looked at as often as the machine can bear."""

import pytest

from mesh_local.lifetime._watching import pause_s


@pytest.mark.parametrize("workloads", [1, 3, 50, 400])
@pytest.mark.parametrize("ready", [False, True])
def test_many_workloads_are_looked_at_as_often_as_a_few_together(
    *, workloads: int, ready: bool
) -> None:
    assert workloads / pause_s(ready=ready, alike=workloads) <= 40


def test_a_few_are_looked_at_soon_and_those_that_are_ready_less_often() -> None:
    assert pause_s(ready=False, alike=2) < pause_s(ready=True, alike=2) < 1
