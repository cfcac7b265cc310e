"""A service coroutine that runs for as long as a block does.

asyncio's TaskGroup waits for its tasks; a service must instead be stopped when the block that
needs it ends, and must end that block when it stops by itself.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType


class ServiceEnded(Exception):
    """A service that should run for ever returned."""


class in_background:  # noqa: N801 - it reads as one thing done, and is never passed around
    """Run `service` beside the block, and cancel it when the block is left.

    If the service ends first, the block is cancelled at its next await, and what ended the
    service (its error, or `ServiceEnded` if it returned) is raised from the `async with`. An error
    of the block, and a cancel that is not ours, go before it.

    A class, as each stream of a server may have one and a generator takes three times the memory.
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
        self._task.add_done_callback(self._ended)
        return self._task

    def _ended(self, _task: asyncio.Task[object]) -> None:
        if not self._leaving:
            self._interrupted = True
            self._body.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _raised: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        del _raised, _traceback  # They would hold this frame, and this frame them.
        self._leaving = True
        ended_first = self._task.done()
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        ours = cancelled and self._take_back()
        self._task.cancel()
        error: BaseException | None = None
        try:
            try:
                # Suspends even if the task is done, which takes in a cancel of ours still pending.
                await asyncio.wait([self._task])
            except asyncio.CancelledError:
                if not self._take_back():
                    raise
            else:
                self._take_back()  # of a block that made another error of it
            finally:
                error = self._end()
            if ended_first and (kind is None or ours):
                raise error or ServiceEnded(
                    f"{self._name} ended, though it should run until it is stopped"
                )
            return False
        finally:
            del error  # It would hold this frame, and this frame the error.

    def _take_back(self) -> bool:
        """Take our cancel of the block back; tell if there was one, and nobody else's."""
        interrupted, self._interrupted = self._interrupted, False
        return interrupted and self._body.uncancel() == 0

    def _end(self) -> BaseException | None:
        """Let go of the service; reading its error keeps asyncio from reporting it as well."""
        task = self._task
        del self._task
        return task.exception() if task.done() and not task.cancelled() else None
