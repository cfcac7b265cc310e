"""Many look-ups at once, of which those that hang hold up none of the others, now or later."""

import asyncio
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from mesh_filewatch._errors import ReadTimedOut
from mesh_filewatch._fetching import run_aside

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

PATIENCE_S = 0.5


class Lookup(NamedTuple, Generic[T]):
    """Blocking work on one path; an OSError that it raises is its answer."""

    about: str
    work: Callable[[], T]


class Lookups(Generic[K, T]):
    """Asks again and again for the same keys.

    One thread does those of a directory, one after the other. A look-up that takes longer than
    `patience_s` is left to its thread: while it hangs, it is not begun anew and not waited for,
    and when it ends, `ended` is called.
    """

    def __init__(self, ended: Callable[[], None], *, patience_s: float = PATIENCE_S) -> None:
        self._ended = ended
        self._patience_s = patience_s
        self._hanging: dict[K, asyncio.Task[None]] = {}

    async def ask(self, lookups: Mapping[K, Lookup[T]]) -> dict[K, T | OSError]:
        """Return what each gave or raised; ReadTimedOut for those that hang."""
        answers: dict[K, T | OSError] = {
            key: ReadTimedOut(each.about, self._patience_s) for key, each in lookups.items()
        }
        directories: dict[str, dict[K, Lookup[T]]] = defaultdict(dict)
        for key, each in lookups.items():
            if key not in self._hanging:
                directories[os.path.dirname(each.about)][key] = each  # noqa: PTH120
        batches = [_Batch(each) for each in directories.values()]
        await self._run(batches)
        for batch in batches:
            answers |= batch.answers
        return answers

    async def _run(self, batches: "list[_Batch[K, T]]") -> None:
        """Wait for all of them; to these are added those with what a look-up that hangs held up."""
        running = {each.begun(): each for each in batches}
        try:
            while running:
                await self._step(running, batches)
        finally:
            for task, batch in running.items():
                batch.stop()
                task.cancel()

    async def _step(
        self, running: "dict[asyncio.Task[None], _Batch[K, T]]", batches: "list[_Batch[K, T]]"
    ) -> None:
        before = {batch: len(batch.answers) for batch in running.values()}
        await asyncio.wait(running, timeout=self._patience_s)
        for task, batch in tuple(running.items()):
            if task.done():
                task.result()
                del running[task]
            elif len(batch.answers) == before[batch]:
                del running[task]
                hanging, held_up = batch.stop()
                self._leave(hanging, task)
                # Each alone: more of them may hang.
                further = [_Batch({key: each}) for key, each in held_up.items()]
                running |= {each.begun(): each for each in further}
                batches += further

    def _leave(self, keys: Iterable[K], task: asyncio.Task[None]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            for key in hanging:
                del self._hanging[key]
            if not task.cancelled():
                self._ended()

        hanging = tuple(keys)
        self._hanging |= dict.fromkeys(hanging, task)
        task.add_done_callback(end)

    async def close(self) -> None:
        """Wait for none of them any longer."""
        tasks = set(self._hanging.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Batch(Generic[K, T]):
    """Look-ups for one thread; those not begun can be taken back."""

    def __init__(self, lookups: Mapping[K, Lookup[T]]) -> None:
        self.answers: dict[K, T | OSError] = {}
        self._ahead = dict(lookups)
        self._about = next(iter(lookups.values())).about
        self._at: tuple[K, ...] = ()
        self._lock = threading.Lock()
        self._stopped = False

    def begun(self) -> asyncio.Task[None]:
        return asyncio.create_task(
            run_aside(self._run, about=self._about, timeout_s=None), name=f"files at {self._about}"
        )

    def _run(self) -> None:
        """Runs in a thread."""
        while True:
            with self._lock:
                if not self._ahead or self._stopped:
                    self._at = ()
                    return
                key = next(iter(self._ahead))
                lookup = self._ahead.pop(key)
                self._at = (key,)
            try:
                answer: T | OSError = lookup.work()
            except OSError as error:
                answer = error
            self.answers[key] = answer

    def stop(self) -> tuple[Iterable[K], Mapping[K, Lookup[T]]]:
        """Begin no more; return the key of the one at work, and those that it has held up.

        If there was no thread for any of them, all are as good as at work.
        """
        with self._lock:
            self._stopped = True
            if not self._at and not self.answers:
                return tuple(self._ahead), {}
            return self._at, self._ahead
