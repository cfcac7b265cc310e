"""Processes that run beside a block: one may be added or stopped, and at the end all stop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

from mesh_local._errors import ProcessEnded
from mesh_local.processes._children import Child, OnExit
from mesh_local.processes._guard import Guard
from mesh_local.processes._specs import ProcessSpec
from mesh_local.processes._task_group import tasks_beside


class ChildGroup:
    """Processes that stop together; created by `child_group`."""

    def __init__(
        self, tasks: asyncio.TaskGroup, *, on_exit: OnExit, kill_now: asyncio.Event, guard: Guard
    ) -> None:
        self._tasks = tasks
        self._on_exit = on_exit
        self._kill_now = kill_now
        self._guard = guard
        self._running: dict[Child, asyncio.Task[None]] = {}

    def start(self, spec: ProcessSpec, *, may_start: asyncio.Event | None = None) -> Child:
        """Run a process until it is stopped. may_start: what it waits for before it starts."""
        if may_start is None:
            may_start = asyncio.Event()
            may_start.set()
        child = Child(
            spec,
            on_exit=self._on_exit,
            may_start=may_start,
            kill_now=self._kill_now,
            guard=self._guard,
        )
        running = child.keep_running()
        try:
            task = self._tasks.create_task(running, name=f"process {spec.name}")
        except RuntimeError:  # the group is being left, and cancels who starts something, too
            running.close()
            return child
        self._running[child] = task
        return child

    async def stop(self, child: Child) -> None:
        """Stop a process; returns when it has ended and nothing of it is left."""
        if (task := self._running.pop(child, None)) is not None:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def child_group(
    *, name: str, on_exit: OnExit, kill_now: asyncio.Event, guard: Guard
) -> AsyncIterator[ChildGroup]:
    """Yield a group of processes; leaving the block stops them all at once.

    kill_now: once set, stopping means killing. guard: kills them if this program is killed.

    Raises `ProcessEnded` from the block when one ends and `on_exit` is FAIL.
    """
    try:
        async with tasks_beside(f"processes of {name}") as tasks:
            yield ChildGroup(tasks, on_exit=on_exit, kill_now=kill_now, guard=guard)
    except BaseExceptionGroup as errors:
        # Not `except*`, which up to Python 3.11.3 groups again what is raised in it
        # (https://github.com/python/cpython/issues/103590).
        ended, others = errors.split(ProcessEnded)
        if ended is None or others is not None:
            raise
        raise next(_leaves(ended)) from None


@asynccontextmanager
async def running(
    specs: Iterable[ProcessSpec],
    *,
    on_exit: OnExit,
    kill_now: asyncio.Event,
    guard: Guard,
    may_start: Callable[[ProcessSpec], asyncio.Event | None] = lambda _: None,
) -> AsyncIterator[tuple[Child, ...]]:
    """Run processes beside the block; see `child_group`.

    may_start: returns the event that a process waits for before it starts.
    """
    given = tuple(specs)
    names = ", ".join(each.name for each in given)
    async with child_group(name=names, on_exit=on_exit, kill_now=kill_now, guard=guard) as group:
        yield tuple(group.start(each, may_start=may_start(each)) for each in given)


def _leaves(group: BaseExceptionGroup[ProcessEnded]) -> Iterator[ProcessEnded]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
