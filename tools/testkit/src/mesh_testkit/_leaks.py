"""Fail the test that leaves tasks, threads, descriptors, processes or socket files behind.

The checks are two automatic fixtures, one around each test and one around each module: a fixture
that is set up first is torn down last, so resources that a test's own fixtures release are never
reported. asyncio's tasks are checked right before a test's loop is closed, because closing a loop
cancels its tasks and so would hide them.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh_testkit._resources import Resources, socket_files

_GRPCS_FILES = ("grpc/_cython/", "/grpc/aio/")
_MOST_NAMED = 10


@pytest.fixture(scope="module", autouse=True)
def _module_leaves_nothing(pytestconfig: pytest.Config) -> Iterator[set[str]]:
    before = Resources.now()
    reported: set[str] = set()
    yield reported
    _fail_on_leftovers("this module's fixtures", before, reported, pytestconfig)


@pytest.fixture(autouse=True)
def _test_leaves_nothing(
    request: pytest.FixtureRequest, _module_leaves_nothing: set[str]
) -> Iterator[None]:
    before = Resources.now()
    yield
    _fail_on_leftovers("this test", before, _module_leaves_nothing, request.config)
    if "tmp_path" in request.node.funcargs:
        fail_on_socket_files(request.node.funcargs["tmp_path"])


def _fail_on_leftovers(
    what: str, before: Resources, reported: set[str], config: pytest.Config
) -> None:
    """Fail if resources are left; adds them to `reported`, so that each is reported once."""
    left = set(Resources.now().left_since(before)) - reported
    if left:
        gc.collect()
        # A library's own thread may be about to close a descriptor.
        deadline = time.monotonic() + patience_s(config)
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = set(Resources.now().left_since(before)) - reported
    if left:
        reported |= left
        pytest.fail(_message(what, sorted(left)), pytrace=False)


def patience_s(config: pytest.Config) -> float:
    """Return how long releasing a resource may take, from pytest's settings."""
    return float(config.getini("leak_patience_s"))


def fail_on_socket_files(directory: Path) -> None:
    """Fail if a server left its Unix socket below the directory."""
    left = [f"socket file {path} was not removed" for path in socket_files(directory)]
    if left:
        pytest.fail(_message("this test", sorted(left)), pytrace=False)


def check_tasks_before_close(loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
    """Fail if tasks are still pending in a loop that is about to be closed.

    A task that ends by itself, as the handler of a connection does when its client has gone, gets
    time for it; so do one that was cancelled, and grpc's own, which end when its poller has noticed
    the end of a call. Iterations of the loop are no measure: their number depends on how busy the
    machine is.
    """
    if loop.is_closed():
        return
    _let_all_end(loop, patience_s)
    left = [_describe_task(task) for task in asyncio.all_tasks(loop)]
    if left:
        pytest.fail(_message("this test", sorted(left)), pytrace=False)


def _let_all_end(loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
    """Run the loop until its tasks, and those they start, have ended, or the time is over."""
    deadline = time.monotonic() + limit_s
    while tasks := asyncio.all_tasks(loop):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        loop.run_until_complete(asyncio.wait(tasks, timeout=left_s))


def is_grpcs_own(task: asyncio.Task[object]) -> bool:
    """Return whether grpc.aio started a task for itself."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and any(part in code.co_filename for part in _GRPCS_FILES)


def _describe_task(task: asyncio.Task[object]) -> str:
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    frames = task.get_stack(limit=1)
    where = f" at {frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
    return f"task {task.get_name()!r} ({name}) is still pending{where}"


def _message(what: str, left: list[str]) -> str:
    named = [f"  - {sentence}" for sentence in left[:_MOST_NAMED]]
    if more := len(left) - len(named):
        named.append(f"  and {more} more")
    return "\n".join([f"{what} left behind:", *named])
