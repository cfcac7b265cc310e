import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from mesh_local import ChildState, OnExit, ProcessEnded
from mesh_local.processes._child_group import child_group, running
from mesh_local.processes._children import describe_exit, last_lines
from mesh_local.processes._guard import Guard, guarding
from mesh_local.processes._specs import ProcessSpec, Role
from mesh_testkit import until

MakeSpec = Callable[..., ProcessSpec]


@pytest_asyncio.fixture
async def guard() -> AsyncIterator[Guard]:
    async with guarding() as started:
        yield started


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    def make(script: str, *, role: Role = Role.APP, stop_timeout_s: float = 60) -> ProcessSpec:
        return ProcessSpec(
            name="program",
            role=role,
            arguments=(sys.executable, "-c", script),
            environment=dict(os.environ),
            directory=tmp_path,
            log=tmp_path / "program.log",
            stop_timeout_s=stop_timeout_s,
        )

    return make


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


SLEEP = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
SLOW_TO_STOP = (
    "import pathlib, signal, time\n"
    "def stop(*_):\n"
    "    print('stopping', flush=True)\n"
    "    while not pathlib.Path('may-end').exists(): time.sleep(0.01)\n"
    "    raise SystemExit(7)\n"
    "signal.signal(signal.SIGTERM, stop)\n"
    "print('here', flush=True)\n"
    "time.sleep(600)\n"
)
WITH_CHILD = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print('child', child.pid, flush=True)\n"
    "time.sleep(600)\n"
)


async def test_a_process_runs_beside_the_block_and_stops_with_it(
    make_spec: MakeSpec, guard: Guard
) -> None:
    spec = make_spec(SLEEP)
    async with running([spec], on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard) as (
        child,
    ):
        await until(lambda: last_lines(spec.log) == ("here",), what="its first words")
        assert child.pid is not None
        pid = child.pid
        assert alive(pid)
    assert not alive(pid)
    assert child.last_exit == "killed by SIGTERM"


async def test_a_process_waits_at_its_gate(make_spec: MakeSpec, guard: Guard) -> None:
    gate = asyncio.Event()
    async with running(
        [make_spec(SLEEP)],
        on_exit=OnExit.FAIL,
        kill_now=asyncio.Event(),
        guard=guard,
        may_start=lambda _: gate,
    ) as (child,):
        assert child.state is ChildState.WAITING
        gate.set()
        await until(lambda: child.state is ChildState.RUNNING, what="it to run")


async def test_a_process_that_must_not_end_ends_the_block(
    make_spec: MakeSpec, guard: Guard
) -> None:
    spec = make_spec("print('why'); raise SystemExit(3)")
    with pytest.raises(ProcessEnded, match=r"program ended by itself \(exit code 3\)") as caught:
        async with running([spec], on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard):
            await asyncio.Event().wait()
    assert last_lines(caught.value.log) == ("why",)


async def test_a_process_is_started_again(make_spec: MakeSpec, guard: Guard) -> None:
    async with running(
        [make_spec(SLEEP)], on_exit=OnExit.RESTART, kill_now=asyncio.Event(), guard=guard
    ) as (child,):
        await until(lambda: child.state is ChildState.RUNNING, what="it to run")
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.state is ChildState.RESTARTING, what="it to be started again")
        assert child.starts_after_s is not None
        await until(
            lambda: child.state is ChildState.RUNNING and child.pid != first, what="the next one"
        )
        assert child.restarts == 1
        assert child.last_exit == "killed by SIGKILL"


@pytest.mark.parametrize("on_exit", OnExit)
async def test_a_process_that_is_killed_on_purpose_is_started_again_at_once(
    make_spec: MakeSpec, guard: Guard, on_exit: OnExit
) -> None:
    spec = make_spec(WITH_CHILD)
    async with running([spec], on_exit=on_exit, kill_now=asyncio.Event(), guard=guard) as (child,):
        await until(lambda: bool(last_lines(spec.log)), what="its child")
        grandchild, first = int(last_lines(spec.log)[0].split()[1]), child.pid
        await child.kill()
        assert first is not None
        assert not alive(first)
        await until(lambda: not alive(grandchild), what="the end of its child")
        await until(
            lambda: child.state is ChildState.RUNNING and child.pid != first, what="the next one"
        )


async def test_a_process_that_is_held_is_started_when_it_may(
    make_spec: MakeSpec, guard: Guard
) -> None:
    spec = make_spec(SLEEP)
    async with running([spec], on_exit=OnExit.RESTART, kill_now=asyncio.Event(), guard=guard) as (
        child,
    ):
        await until(lambda: last_lines(spec.log) == ("here",), what="its first words")
        await child.kill(hold=True)
        await until(lambda: child.state is ChildState.ENDED, what="its end")
        await child.kill(hold=True)  # of what does not run: nothing
        first = child.pid
        child.let_start()
        await until(lambda: child.state is ChildState.RUNNING, what="the next one")
        assert child.pid != first


async def test_a_process_left_as_it_ended_is_not_started_again(
    make_spec: MakeSpec, guard: Guard
) -> None:
    async with running(
        [make_spec("raise SystemExit(0)")],
        on_exit=OnExit.LEAVE,
        kill_now=asyncio.Event(),
        guard=guard,
    ) as (child,):
        assert await child.wait_ended() == "exit code 0"
        assert child.state is ChildState.ENDED


class NotedGuard(Guard):
    """Notes what it is sent, and kills nothing."""

    def __init__(self) -> None:
        self.watched: list[int] = []

    def watch(self, pid: int) -> None:
        self.watched.append(pid)

    def forget(self, pid: int) -> None:
        self.watched.remove(pid)


async def test_the_number_of_a_group_that_is_empty_is_not_kept(make_spec: MakeSpec) -> None:
    """Another program may have it a while later, and would be killed at the end of the block."""
    guard = NotedGuard()
    async with running(
        [make_spec("raise SystemExit(0)")],
        on_exit=OnExit.LEAVE,
        kill_now=asyncio.Event(),
        guard=guard,
    ) as (child,):
        await child.wait_ended()
        await until(lambda: guard.watched == [], what="the group to be forgotten")


async def test_what_an_ended_process_has_left_in_its_group_is_killed_at_the_end(
    make_spec: MakeSpec, guard: Guard
) -> None:
    script = WITH_CHILD.replace("time.sleep(600)\n", "raise SystemExit(0)\n")
    spec = make_spec(script)
    async with running([spec], on_exit=OnExit.LEAVE, kill_now=asyncio.Event(), guard=guard) as (
        child,
    ):
        await child.wait_ended()
        left = int(last_lines(spec.log)[0].split()[1])
        assert alive(left)
    await until(lambda: not alive(left), what="the end of what was left")


async def test_a_process_that_does_not_stop_is_killed(make_spec: MakeSpec, guard: Guard) -> None:
    spec = make_spec(STUBBORN, stop_timeout_s=0.2)
    async with running([spec], on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard) as (
        child,
    ):
        await until(lambda: last_lines(spec.log) == ("here",), what="its first words")
    assert child.last_exit == "killed by SIGKILL"


async def test_kill_now_kills_what_would_take_its_time(make_spec: MakeSpec, guard: Guard) -> None:
    spec, kill_now = make_spec(STUBBORN, stop_timeout_s=600), asyncio.Event()
    async with running([spec], on_exit=OnExit.FAIL, kill_now=kill_now, guard=guard) as (child,):
        await until(lambda: last_lines(spec.log) == ("here",), what="its first words")
        kill_now.set()
    assert child.last_exit == "killed by SIGKILL"


@pytest.mark.parametrize("role", [Role.APP, Role.AGENT])
async def test_what_a_process_started_stops_with_it(
    make_spec: MakeSpec, guard: Guard, role: Role
) -> None:
    spec = make_spec(WITH_CHILD, role=role)
    async with running([spec], on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard):
        await until(lambda: bool(last_lines(spec.log)), what="its child")
        grandchild = int(last_lines(spec.log)[0].split()[1])
        assert alive(grandchild)
    await until(lambda: not alive(grandchild), what="the end of its child")


async def test_one_process_of_a_group_stops_and_the_others_run_on(
    make_spec: MakeSpec, guard: Guard
) -> None:
    async with child_group(
        name="some", on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard
    ) as group:
        first, second = group.start(make_spec(WITH_CHILD)), group.start(make_spec(SLEEP))
        log = first.spec.log
        await until(lambda: len(last_lines(log)) == 2, what="both")
        (child_line,) = (line for line in last_lines(log) if line.startswith("child"))
        grandchild, pid = int(child_line.split()[1]), first.pid
        await group.stop(first)
        assert pid is not None
        assert (first.state, alive(pid)) == (ChildState.ENDED, False)
        await until(lambda: not alive(grandchild), what="the end of its child")
        await group.stop(first)  # once more is no mistake
        third = group.start(make_spec(SLEEP))
        await until(lambda: third.state is ChildState.RUNNING, what="a later one")
        assert second.pid is not None
        assert alive(second.pid)
    assert not alive(second.pid)


@pytest.mark.parametrize("role", [Role.APP, Role.AGENT])
async def test_one_that_is_stopping_when_all_stop_is_given_its_time(
    make_spec: MakeSpec, guard: Guard, tmp_path: Path, role: Role
) -> None:
    spec = make_spec(SLOW_TO_STOP, role=role)

    async def let_end() -> None:
        await leaving.wait()
        for _ in range(10):  # leaving the group cancels its tasks meanwhile
            await asyncio.sleep(0)
        (tmp_path / "may-end").touch()

    leaving = asyncio.Event()
    ending = asyncio.create_task(let_end())
    async with child_group(
        name="some", on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard
    ) as group:
        child = group.start(spec)
        await until(lambda: last_lines(spec.log) == ("here",), what="its first words")
        stopping = asyncio.create_task(group.stop(child))
        await until(lambda: "stopping" in last_lines(spec.log), what="its stop")
        leaving.set()
    await asyncio.gather(stopping, ending)
    assert child.last_exit == "exit code 7"


async def test_a_process_that_waits_can_be_stopped(make_spec: MakeSpec, guard: Guard) -> None:
    async with child_group(
        name="some", on_exit=OnExit.FAIL, kill_now=asyncio.Event(), guard=guard
    ) as group:
        child = group.start(make_spec(SLEEP), may_start=asyncio.Event())
        await group.stop(child)
        assert child.pid is None


async def test_a_program_whose_directory_has_gone_is_tried_again(
    make_spec: MakeSpec, guard: Guard, tmp_path: Path
) -> None:
    spec = replace(make_spec(SLEEP), directory=tmp_path / "gone")
    async with running([spec], on_exit=OnExit.RESTART, kill_now=asyncio.Event(), guard=guard) as (
        child,
    ):
        await until(lambda: child.state is ChildState.RESTARTING, what="a failed start")
        assert child.last_exit == f"can't be started in {tmp_path}/gone: No such file or directory"
        (tmp_path / "gone").mkdir()
        await until(lambda: child.state is ChildState.RUNNING, what="the next try")


async def test_the_guard_kills_the_groups_that_are_left() -> None:
    groups = [
        await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        for _ in range(2)
    ]
    async with guarding() as guard:
        guard.watch(groups[0].pid)
        guard.watch(groups[1].pid)
        guard.forget(groups[1].pid)
    assert await groups[0].wait() == -signal.SIGKILL
    assert groups[1].returncode is None
    groups[1].kill()
    await groups[1].wait()


@pytest.mark.parametrize("any_left", [True, False])
async def test_the_guard_removes_shared_memory_of_envoys_that_were_killed(
    tmp_path: Path, *, any_left: bool
) -> None:
    base_id = 400_000_000 + os.getpid()
    segment = Path(f"/dev/shm/envoy_shared_memory_{base_id * 10}")
    files = tmp_path / "workloads/a/etc/istio/proxy"
    files.mkdir(parents=True)
    (files / f"base-id-{os.getpid()}-0").write_text(f"{base_id}\n")
    segment.touch()
    envoy = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    try:
        async with guarding() as guard:
            guard.clean(tmp_path)
            guard.watch(envoy.pid)
            if not any_left:
                guard.forget(envoy.pid)
        assert segment.exists() is not any_left
    finally:
        segment.unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            envoy.kill()
        await envoy.wait()


def test_exits_are_put_in_words() -> None:
    assert describe_exit(0) == "exit code 0"
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(-250) == "killed by signal 250"


def test_the_end_of_a_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {n}" for n in range(100_000)))
    assert last_lines(log, 2) == ("line 99998", "line 99999")
    assert last_lines(tmp_path / "none") == ()
