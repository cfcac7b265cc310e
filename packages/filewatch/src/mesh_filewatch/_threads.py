"""Daemon threads for work that may hang: few at a time, and none waited for.

A job whose like hangs is not begun before that has ended, so a hung path has one thread however
often it is asked for. A directory has a few, for a mount hangs as a whole, and then what lies
elsewhere finds threads of its own.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

MAX_THREADS = 64
MAX_THREADS_A_DIRECTORY = 4


class Job:
    """Work to be done once; made by `Threads.submit`."""

    def __init__(self, work: Callable[[], Any], *, directory: str, key: Hashable) -> None:
        self.work = work
        self.directory = directory
        self.key = key
        self.waiting_for_it = 1
        self.answer: Future[Any] = Future()


class Threads:
    """Those that are at work, and the jobs that wait for one."""

    def __init__(
        self, *, limit: int = MAX_THREADS, limit_a_directory: int = MAX_THREADS_A_DIRECTORY
    ) -> None:
        self._limit = limit
        self._limit_a_directory = limit_a_directory
        self._lock = threading.Lock()
        self._at_work: set[Hashable] = set()
        self._count: Counter[str] = Counter()
        self._queues: dict[str, dict[Hashable, Job]] = {}

    def submit(self, work: Callable[[], Any], *, directory: str, key: Hashable) -> Job:
        """Return the job that does `work`, in a thread as soon as there may be one.

        A job with this key that has not begun is returned instead of another.
        """
        with self._lock:
            queue = self._queues.setdefault(directory, {})
            if key in queue:
                queue[key].waiting_for_it += 1
                return queue[key]
            job = queue[key] = Job(work, directory=directory, key=key)
            # No one may cancel it from now on: it may have begun at any time.
            job.answer.set_running_or_notify_cancel()
            first = self._taken_from(directory)
        if first is not None:
            self._start(first)
        return job

    def forget(self, job: Job) -> None:
        """Tell that one who submitted it no longer waits; nobody's job is not begun."""
        with self._lock:
            job.waiting_for_it -= 1
            queue = self._queues.get(job.directory, {})
            if not job.waiting_for_it and queue.get(job.key) is job:
                del queue[job.key]
                self._tidy(job.directory)

    def _start(self, job: Job) -> None:
        try:
            threading.Thread(
                target=self._run, args=(job,), name=f"files in {job.directory}", daemon=True
            ).start()
        except RuntimeError as error:
            with self._lock:
                self._put_back(job)
            job.answer.set_exception(OSError(f"no thread for files in {job.directory}: {error}"))

    def _run(self, job: Job | None) -> None:
        while job is not None:
            outcome: BaseException | None = None
            result = None
            try:
                result = job.work()
            except BaseException as error:  # noqa: BLE001 - belongs to whoever waits for it
                outcome = error
            with self._lock:
                self._put_back(job)
                after = self._taken_from(job.directory) or self._taken_from_any()
            if outcome is not None:
                job.answer.set_exception(outcome)
            else:
                job.answer.set_result(result)
            job = after

    def _taken_from(self, directory: str) -> Job | None:
        """Take a job from the directory's queue, with the right to a thread, if there is one."""
        if self._count[directory] >= self._limit_a_directory or self._count.total() >= self._limit:
            return None
        queue = self._queues.get(directory, {})
        key = next((key for key in queue if key not in self._at_work), None)
        if key is None:
            self._tidy(directory)
            return None
        self._at_work.add(key)
        self._count[directory] += 1
        job = queue.pop(key)
        self._tidy(directory)
        return job

    def _taken_from_any(self) -> Job | None:
        return next(filter(None, map(self._taken_from, tuple(self._queues))), None)

    def _put_back(self, job: Job) -> None:
        self._at_work.discard(job.key)
        self._count[job.directory] -= 1
        self._tidy(job.directory)

    def _tidy(self, directory: str) -> None:
        if not self._queues.get(directory, True):
            del self._queues[directory]
        if not self._count[directory]:
            del self._count[directory]
