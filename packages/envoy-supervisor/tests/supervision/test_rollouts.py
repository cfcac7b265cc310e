from __future__ import annotations

from pathlib import Path

import pytest

from envoy_supervisor import EnvoyConfig, RestartRefused, UnixAddress
from envoy_supervisor.processes._version import Version
from envoy_supervisor.supervision._rollouts import Rollouts


def named(name: str) -> Version:
    return Version(
        name=name,
        config=EnvoyConfig(binary=Path("envoy"), bootstrap=Path("b"), directory=Path("d")),
        content="{}",
        admin=UnixAddress(path=Path("admin")),
        own_listeners=(),
        sets_log_format=False,
        stats_flush_s=5.0,
        fixed_listeners=True,
    )


async def test_who_waits_hears_whether_it_serves_or_why_not() -> None:
    rollouts = Rollouts(named("a"))
    good, bad = rollouts.begin(named("good")), rollouts.begin(named("bad"))
    rollouts.succeed("good")
    rollouts.refuse("bad", "it does not work")
    # The first outcome stays, and that of a version that no caller waits for is dropped.
    rollouts.refuse_all("envoy has ended")
    rollouts.succeed("bad")
    rollouts.refuse("a", "it does not work")
    await good
    with pytest.raises(RestartRefused, match="it does not work"):
        await bad


async def test_the_end_reaches_all_who_wait() -> None:
    rollouts = Rollouts(named("a"))
    outcome = rollouts.begin(named("b"))
    rollouts.refuse_all("envoy has ended")
    with pytest.raises(RestartRefused, match="envoy has ended"):
        await outcome


async def test_only_versions_that_are_needed_are_remembered() -> None:
    rollouts = Rollouts(named("a"))
    for name in ("b", "c"):
        rollouts.begin(named(name)).cancel()
        rollouts.forget(name, needed={"a", "c"})
    assert rollouts["a"].name == "a"
    assert rollouts["c"].name == "c"
    with pytest.raises(KeyError):
        rollouts["b"]
