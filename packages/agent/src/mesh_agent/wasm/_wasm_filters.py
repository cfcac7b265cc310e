"""Gives Envoy's Wasm filters their modules as files; loads what does that for the first of them."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mesh_agent.wasm._wasm_config import WasmSettings

if TYPE_CHECKING:
    from wasm_modules import Counters, WasmRewriter

log = logging.getLogger(__name__)

_EXTENSION_CONFIG = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
_MARK = b".wasm.v3.Wasm"  # in each resource that has such a filter

Recovered = Callable[[str, str], None]


class WasmFilters:
    """A rewriter of the relay's, until the first Wasm filter an empty one."""

    def __init__(self, settings: WasmSettings, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._rewriter: WasmRewriter | None = None
        self._on_recovered: Recovered | None = None

    @property
    def counters(self) -> "Counters | None":
        """The totals; None while there was no Wasm filter."""
        return None if self._rewriter is None else self._rewriter.counters

    def on_recovered(self, callback: Recovered) -> None:
        """Have `callback(type_url, name)` called when a module is there that was missing."""
        self._on_recovered = callback
        if self._rewriter is not None:
            self._rewriter.on_recovered(callback)

    def describe(self) -> Mapping[str, object]:
        """Return the filters with remote modules; a filter without its module has a reason."""
        if self._rewriter is None:
            return {}
        return {
            "cache": str(self._settings.cache),
            "filters": {
                name: {
                    "url": each.url,
                    "file": None if each.file is None else str(each.file),
                    "reason": each.reason,
                    "without_module": "requests pass" if each.fail_open else "requests are denied",
                    "since": each.since,
                }
                for name, each in self._rewriter.filters.items()
            },
        }

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Return whether resources of this type may have Wasm filters."""
        del node
        return type_url == _EXTENSION_CONFIG

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the resources for Envoy."""
        if self._rewriter is None and not any(_MARK in body for body in bodies):
            return bodies
        rewriter = await self.start()
        return await rewriter.rewrite(node, type_url, bodies)

    async def start(self) -> "WasmRewriter":
        """Load the rewriter, once."""
        if self._rewriter is None:
            import wasm_modules

            settings = self._settings
            rewriter = await self._stack.enter_async_context(
                wasm_modules.rewriting(
                    wasm_modules.WasmConfig(
                        cache_root=settings.cache,
                        expiry_s=settings.expiry.total_seconds(),
                        purge_interval_s=settings.purge_interval.total_seconds(),
                        request_timeout_s=settings.request_timeout.total_seconds(),
                        max_retries=settings.max_retries,
                        max_module_bytes=settings.max_module_bytes,
                        blocked_networks=settings.blocked_networks,
                        insecure_registries=settings.insecure_registries,
                    )
                )
            )
            if self._on_recovered is not None:
                rewriter.on_recovered(self._on_recovered)
            self._rewriter = rewriter
        return self._rewriter


@asynccontextmanager
async def wasm_filters(settings: WasmSettings | None) -> AsyncIterator[WasmFilters | None]:
    """Rewrite Wasm filters while a block runs; without settings, yields None."""
    if settings is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        filters = WasmFilters(settings, stack)
        if _is_directory(settings.cache):
            # What is there from before expires, whether or not there is a filter now.
            await filters.start()
        yield filters


def _is_directory(path: Path) -> bool:
    """Return whether there is a directory, whatever is there: Path.is_dir raises for odd links."""
    return os.path.isdir(path)  # noqa: PTH112
