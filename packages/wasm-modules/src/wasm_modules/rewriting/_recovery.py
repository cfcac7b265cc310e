"""Fetches again, for as long as it takes, a module that could not be had when it was asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from mesh_lifecycle import Backoff
from wasm_modules._errors import FetchError
from wasm_modules._source import ModuleRequest

log = logging.getLogger("wasm_modules")

RECOVERY: Final = Backoff(initial_s=2.0, maximum_s=60.0, multiplier=2.0, jitter=0.3)
"""A failed module costs requests, or security: a minute is as long as one is left alone."""

_PATIENCE_S = 600.0
"""Envoy does not wait for these attempts."""


class Recovery:
    """The attempts to get one module."""

    def __init__(
        self,
        request: ModuleRequest,
        *,
        get: Callable[[ModuleRequest], Awaitable[Path]],
        recovered: Callable[[Path], None],
        failed: Callable[[str], None],
        backoff: Backoff,
        at_once: bool,
    ) -> None:
        """at_once: the first attempt needs no pause, as a fetch is under way that it waits for."""
        self.request = request
        self._get = get
        self._recovered = recovered
        self._failed = failed
        self._backoff = backoff
        self._now = asyncio.Event()
        if at_once:
            self._now.set()
        self._task = asyncio.create_task(self._run(), name=f"wasm-recovery {request.url[:80]}")

    def hasten(self) -> None:
        """Make the next attempt now."""
        self._now.set()

    def cancel(self) -> asyncio.Task[None]:
        """End the attempts; return the task to wait for."""
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        for delay in self._backoff.delays():
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._now.wait()
            self._now.clear()
            try:
                path = await self._get(replace(self.request, timeout_s=_PATIENCE_S))
            except FetchError as error:
                self._failed(str(error))
            else:
                self._recovered(path)
                return
