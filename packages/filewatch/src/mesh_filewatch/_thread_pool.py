"""Daemon threads for jobs that may hang: a limited number, none of which has to be waited for.

A job does not start while another with the same key is running, so a hung path takes one thread
however often it is read. The threads of one directory are limited too: a mount hangs as a whole,
and files elsewhere must still find threads.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

MAX_THREADS = 64
MAX_THREADS_A_DIRECTORY = 4


class Job:
    """A call to be run once; created by `ThreadPool.submit`."""

    def __init__(self, work: Callable[[], Any], *, directory: str, key: Hashable) -> None:
        self.work = work
        self.directory = directory
        self.key = key
        self.waiters = 1
        self.answer: Future[Any] = Future()


class ThreadPool:
    """The jobs that are running, and the jobs that wait for a thread."""

    def __init__(
        self, *, limit: int = MAX_THREADS, limit_a_directory: int = MAX_THREADS_A_DIRECTORY
    ) -> None:
        self._limit = limit
        self._limit_a_directory = limit_a_directory
        self._lock = threading.Lock()
        self._running: set[Hashable] = set()
        self._count: Counter[str] = Counter()
        self._queues: dict[str, dict[Hashable, Job]] = {}

    def submit(self, work: Callable[[], Any], *, directory: str, key: Hashable) -> Job:
        """Return a job that calls `work` in a thread, as soon as the limits allow one.

        If a job with this key is waiting already, returns that job.
        """
        with self._lock:
            queue = self._queues.setdefault(directory, {})
            if key in queue:
                queue[key].waiters += 1
                return queue[key]
            job = queue[key] = Job(work, directory=directory, key=key)
            # It must not be cancelled from now on: it may start at any time.
            job.answer.set_running_or_notify_cancel()
            first = self._next_of(directory)
        if first is not None:
            self._start(first)
        return job

    def forget(self, job: Job) -> None:
        """Drop one waiter of a job; a job without waiters that has not started never starts."""
        with self._lock:
            job.waiters -= 1
            queue = self._queues.get(job.directory, {})
            if not job.waiters and queue.get(job.key) is job:
                del queue[job.key]
                self._remove_empty(job.directory)

    def _start(self, job: Job) -> None:
        try:
            threading.Thread(
                target=self._run, args=(job,), name=f"files in {job.directory}", daemon=True
            ).start()
        except RuntimeError as error:
            with self._lock:
                self._release(job)
            job.answer.set_exception(OSError(f"no thread for files in {job.directory}: {error}"))

    def _run(self, job: Job | None) -> None:
        while job is not None:
            outcome: BaseException | None = None
            result = None
            try:
                result = job.work()
            except BaseException as error:  # noqa: BLE001 - is raised to the job's waiters
                outcome = error
            with self._lock:
                self._release(job)
                after = self._next_of(job.directory) or self._next_of_any()
            if outcome is not None:
                job.answer.set_exception(outcome)
            else:
                job.answer.set_result(result)
            job = after

    def _next_of(self, directory: str) -> Job | None:
        """Remove a job from a directory's queue and count its thread; None if no job may start."""
        if self._count[directory] >= self._limit_a_directory or self._count.total() >= self._limit:
            return None
        queue = self._queues.get(directory, {})
        key = next((key for key in queue if key not in self._running), None)
        if key is None:
            self._remove_empty(directory)
            return None
        self._running.add(key)
        self._count[directory] += 1
        job = queue.pop(key)
        self._remove_empty(directory)
        return job

    def _next_of_any(self) -> Job | None:
        return next(filter(None, map(self._next_of, tuple(self._queues))), None)

    def _release(self, job: Job) -> None:
        self._running.discard(job.key)
        self._count[job.directory] -= 1
        self._remove_empty(job.directory)

    def _remove_empty(self, directory: str) -> None:
        if not self._queues.get(directory, True):
            del self._queues[directory]
        if not self._count[directory]:
            del self._count[directory]
