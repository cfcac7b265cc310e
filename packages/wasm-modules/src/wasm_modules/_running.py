"""The parts that run: fetches, the look for modules that have expired, the rewriter over both."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mesh_lifecycle import Backoff, Clock, SystemClock
from wasm_modules._config import WasmConfig
from wasm_modules._counters import Counters
from wasm_modules._source import ModuleRequest
from wasm_modules.rewriting._recovery import RECOVERY
from wasm_modules.rewriting._rewriter import WasmRewriter

if TYPE_CHECKING:
    from wasm_modules._modules import Modules

log = logging.getLogger("wasm_modules")

InUse = Callable[[], Collection[Path]]


@asynccontextmanager
async def getting_modules(
    config: WasmConfig, *, clock: Clock | None = None, in_use: InUse = frozenset
) -> AsyncIterator[Modules]:
    """Get modules while a block runs; those that have expired are removed now and then.

    in_use: the files that stay, however long ago they were asked for.
    Raises ConfigError.
    """
    config.check()
    opened = _Opened(config, clock=clock or SystemClock(), in_use=in_use)
    try:
        yield opened.modules()
    finally:
        await opened.close()


@asynccontextmanager
async def rewriting(
    config: WasmConfig, *, clock: Clock | None = None, recovery: Backoff = RECOVERY
) -> AsyncIterator[WasmRewriter]:
    """Rewrite the Wasm filters of ECDS resources while a block runs.

    Until the first filter with a remote module, and unless there is a cache already, what fetches
    modules is not even loaded. Raises ConfigError.

    recovery: the pauses between attempts to get a module that is missing.
    """
    config.check()
    clock = clock or SystemClock()
    opened = _Opened(config, clock=clock, in_use=lambda: rewriter.in_use)
    rewriter = WasmRewriter(opened.get, counters=opened.counters, clock=clock, recovery=recovery)
    try:
        if _is_directory(config.cache_root):
            opened.modules()
        yield rewriter
    finally:
        await rewriter.stop()
        await opened.close()


class _Opened:
    """Modules that are loaded when they are first used, and the task that purges them."""

    def __init__(self, config: WasmConfig, *, clock: Clock, in_use: InUse) -> None:
        self.counters = Counters()
        self._config = config
        self._clock = clock
        self._in_use = in_use
        self._modules: Modules | None = None
        self._purging: asyncio.Task[None] | None = None

    def modules(self) -> Modules:
        if self._modules is None:
            from wasm_modules._modules import Modules

            self._modules = Modules(self._config, clock=self._clock, counters=self.counters)
            self._purging = asyncio.create_task(self._purge(self._modules), name="wasm-purge")
        return self._modules

    async def get(self, request: ModuleRequest) -> Path:
        return await self.modules().get(request)

    async def close(self) -> None:
        if self._purging is not None:
            self._purging.cancel()
            await asyncio.wait({self._purging})
        if self._modules is not None:
            await self._modules.stop()

    async def _purge(self, modules: Modules) -> None:
        await modules.count()
        while True:
            # Not before: what a configuration wants that was in use before a restart comes later.
            await self._clock.sleep(self._config.purge_interval_s)
            try:
                await modules.purge(self._in_use())
            except OSError as error:
                log.warning("wasm modules cannot be purged", extra={"reason": str(error)})


def _is_directory(path: Path) -> bool:
    """Return whether there is a directory, whatever is there: Path.is_dir raises for odd links."""
    return os.path.isdir(path)  # noqa: PTH112
