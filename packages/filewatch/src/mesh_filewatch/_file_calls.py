"""Runs many blocking calls on files at once; one that hangs delays no other, now or later."""

import asyncio
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from mesh_filewatch._calls_in_threads import run_in_thread
from mesh_filewatch._errors import ReadTimedOut

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

HANG_TIMEOUT_S = 0.5


class FileCall(NamedTuple, Generic[T]):
    """A blocking function and the path that it uses; an OSError that it raises is its result."""

    path: str
    function: Callable[[], T]


class FileCalls(Generic[K, T]):
    """Runs calls under the same keys again and again.

    The calls of one directory run in one thread, one after the other. A call that takes longer than
    `hang_timeout_s` hangs: it is left to its thread, is neither repeated nor waited for until it
    returns, and then `on_late_return` is called.
    """

    def __init__(
        self, on_late_return: Callable[[], None], *, hang_timeout_s: float = HANG_TIMEOUT_S
    ) -> None:
        self._on_late_return = on_late_return
        self._hang_timeout_s = hang_timeout_s
        self._hanging: dict[K, asyncio.Task[None]] = {}

    async def run(self, calls: Mapping[K, FileCall[T]]) -> dict[K, T | OSError]:
        """Return the result or the OSError of each call; ReadTimedOut for those that hang."""
        results: dict[K, T | OSError] = {
            key: ReadTimedOut(call.path, self._hang_timeout_s) for key, call in calls.items()
        }
        directories: dict[str, dict[K, FileCall[T]]] = defaultdict(dict)
        for key, call in calls.items():
            if key not in self._hanging:
                directories[os.path.dirname(call.path)][key] = call  # noqa: PTH120
        batches = [_Batch(each) for each in directories.values()]
        await self._run_batches(batches)
        for batch in batches:
            results |= batch.results
        return results

    async def _run_batches(self, batches: "list[_Batch[K, T]]") -> None:
        """Wait for all batches; appends a batch for each call that waits behind one that hangs."""
        running = {each.start(): each for each in batches}
        try:
            while running:
                await self._wait_once(running, batches)
        finally:
            for task, batch in running.items():
                batch.stop()
                task.cancel()

    async def _wait_once(
        self, running: "dict[asyncio.Task[None], _Batch[K, T]]", batches: "list[_Batch[K, T]]"
    ) -> None:
        before = {batch: len(batch.results) for batch in running.values()}
        await asyncio.wait(running, timeout=self._hang_timeout_s)
        for task, batch in tuple(running.items()):
            if task.done():
                task.result()
                del running[task]
            elif len(batch.results) == before[batch]:
                del running[task]
                hanging, waiting = batch.stop()
                self._abandon(hanging, task)
                # One batch for each call, because more of them may hang.
                further = [_Batch({key: call}) for key, call in waiting.items()]
                running |= {each.start(): each for each in further}
                batches += further

    def _abandon(self, keys: Iterable[K], task: asyncio.Task[None]) -> None:
        def on_return(task: asyncio.Task[None]) -> None:
            for key in hanging:
                del self._hanging[key]
            if not task.cancelled():
                self._on_late_return()

        hanging = tuple(keys)
        self._hanging |= dict.fromkeys(hanging, task)
        task.add_done_callback(on_return)

    async def close(self) -> None:
        """Stop waiting for the calls that hang."""
        tasks = set(self._hanging.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Batch(Generic[K, T]):
    """Calls for one thread; those that have not started can be taken back."""

    def __init__(self, calls: Mapping[K, FileCall[T]]) -> None:
        self.results: dict[K, T | OSError] = {}
        self._waiting = dict(calls)
        self._path = next(iter(calls.values())).path
        self._running: tuple[K, ...] = ()
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(
            run_in_thread(self._run, path=self._path, timeout_s=None),
            name=f"files at {self._path}",
        )

    def _run(self) -> None:
        """Make the calls; runs in a thread."""
        while True:
            with self._lock:
                if not self._waiting or self._stopped:
                    self._running = ()
                    return
                key = next(iter(self._waiting))
                call = self._waiting.pop(key)
                self._running = (key,)
            try:
                result: T | OSError = call.function()
            except OSError as error:
                result = error
            self.results[key] = result

    def stop(self) -> tuple[Iterable[K], Mapping[K, FileCall[T]]]:
        """Start no further call; return the key of the running call, and the calls behind it.

        If no call got a thread, all of them count as running.
        """
        with self._lock:
            self._stopped = True
            if not self._running and not self.results:
                return tuple(self._waiting), {}
            return self._running, self._waiting
