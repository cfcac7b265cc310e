"""Runs a service coroutine for as long as a block runs.

asyncio's TaskGroup waits for its tasks. A service must instead be stopped at the end of the block
that needs it, and that block must end if the service stops by itself.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType


class ServiceEnded(Exception):
    """A service that should run until it is stopped has returned."""


class in_background:  # noqa: N801 - it reads as one thing done, and is never passed around
    """Run `service` beside the block, and cancel it when the block is left.

    If the service ends first, the block is cancelled at its next await, and the `async with` raises
    the service's error, or `ServiceEnded` if it returned. An error of the block, or a cancellation
    from outside, takes precedence.

    This is a class, because each stream of a server may have one, and a generator takes three times
    the memory.
    """

    __slots__ = ("_body", "_interrupted", "_leaving", "_name", "_service", "_task")

    _body: asyncio.Task[object]
    _task: asyncio.Task[object]

    def __init__(self, service: Coroutine[object, object, object], *, name: str) -> None:
        self._service: Coroutine[object, object, object] | None = service
        self._name = name
        self._leaving = self._interrupted = False

    async def __aenter__(self) -> asyncio.Task[object]:
        service, self._service = self._service, None
        if service is None:
            raise RuntimeError("in_background is entered once")
        body = asyncio.current_task()
        if body is None:
            service.close()
            raise RuntimeError("in_background needs a running task")
        self._body = body
        self._task = asyncio.create_task(service, name=self._name)
        self._task.add_done_callback(self._on_end)
        return self._task

    def _on_end(self, _task: asyncio.Task[object]) -> None:
        if not self._leaving:
            self._interrupted = True
            self._body.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _raised: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        del _raised, _traceback  # They would reference this frame, and this frame them.
        self._leaving = True
        ended_first = self._task.done()
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        ours = cancelled and self._uncancel()
        self._task.cancel()
        error: BaseException | None = None
        try:
            try:
                # Suspends even if the task is done, so that a pending cancellation of ours arrives.
                await asyncio.wait([self._task])
            except asyncio.CancelledError:
                if not self._uncancel():
                    raise
            else:
                self._uncancel()  # for a block that raised another error instead
            finally:
                error = self._end()
            if ended_first and (kind is None or ours):
                raise error or ServiceEnded(
                    f"{self._name} ended, though it should run until it is stopped"
                )
            return False
        finally:
            del error  # It would reference this frame, and this frame the error.

    def _uncancel(self) -> bool:
        """Undo our cancellation of the block; return whether it was the only one."""
        interrupted, self._interrupted = self._interrupted, False
        return interrupted and self._body.uncancel() == 0

    def _end(self) -> BaseException | None:
        """Drop the service and return its error, which asyncio then does not report as unread."""
        task = self._task
        del self._task
        return task.exception() if task.done() and not task.cancelled() else None
