"""A service coroutine that runs for as long as a block does, and ends the block if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType


class in_background:  # noqa: N801  it reads as one thing done, and is never passed around
    """Run `service` beside the block; its error cancels the block and is raised from it.

    A class, as every stream has one and a generator would take three times as much memory.
    """

    __slots__ = ("_body", "_interrupted", "_leaving", "_name", "_service", "_task")

    _body: asyncio.Task[object]
    _task: asyncio.Task[None]

    def __init__(self, service: Coroutine[object, object, None], *, name: str) -> None:
        self._service: Coroutine[object, object, None] | None = service
        self._name = name
        self._leaving = self._interrupted = False

    async def __aenter__(self) -> None:
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

    def _ended(self, _task: asyncio.Task[None]) -> None:
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
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        # Our own cancel is answered below; if others cancelled as well, theirs goes on.
        answered = cancelled and self._interrupted and self._body.uncancel() == 0
        self._leaving = True
        self._task.cancel()
        await asyncio.wait([self._task])
        error = None if self._task.cancelled() else self._task.exception()
        del self._task  # With it, the error would hold this frame and this frame the error.
        if not self._interrupted or (kind is not None and not answered):
            return False
        try:
            raise error or RuntimeError(f"{self._name} ended")
        finally:
            del error
