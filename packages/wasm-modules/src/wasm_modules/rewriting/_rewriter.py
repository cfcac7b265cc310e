"""Rewrites ECDS resources whose Wasm modules are remote, so that Envoy reads them from files.

It has the shape of `xds_proxy.Rewriter`. A module that cannot be had in time is replaced by a
filter that lets all pass or nothing, and is fetched again meanwhile; when it is there, a listener
is notified, to have the resource rewritten once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from mesh_lifecycle import Backoff, Clock
from mesh_protowire import WireError
from wasm_modules._counters import Conversion, Counters
from wasm_modules._errors import FetchError, StillFetching
from wasm_modules._source import ModuleRequest
from wasm_modules.rewriting._control_settings import module_request
from wasm_modules.rewriting._filter import EXTENSION_CONFIG, WasmFilter, read_filter
from wasm_modules.rewriting._recovery import RECOVERY, Recovery

log = logging.getLogger("wasm_modules")

_MOST_FILTERS = 1000
"""As many are remembered, for the status and so that their files stay."""

Get: TypeAlias = Callable[[ModuleRequest], Awaitable[Path]]
Recovered: TypeAlias = Callable[[str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStatus:
    """The state of the newest resource of a name.

    url: of the module; without a query, and empty if the filter names none.
    file: the module that Envoy reads; None while there is none.
    reason: why there is none.
    fail_open: without a module, requests pass.
    since: when it became so (UTC).
    """

    url: str
    file: Path | None
    reason: str | None
    fail_open: bool
    since: datetime


class WasmRewriter:
    """Rewrites Wasm filters; created by `rewriting`."""

    def __init__(
        self, get: Get, *, counters: Counters, clock: Clock, recovery: Backoff = RECOVERY
    ) -> None:
        self._get = get
        self._counters = counters
        self._clock = clock
        self._backoff = recovery
        self._filters: dict[str, FilterStatus] = {}
        self._recoveries: dict[str, Recovery] = {}
        self._ready: dict[str, tuple[ModuleRequest, Path]] = {}
        """Modules of recoveries, until their filters are rewritten once more."""
        self._on_recovered: Recovered | None = None

    @property
    def filters(self) -> Mapping[str, FilterStatus]:
        """The filters with remote modules, by the names of their resources."""
        return dict(self._filters)

    @property
    def counters(self) -> Counters:
        """The totals since the start."""
        return self._counters

    @property
    def in_use(self) -> frozenset[Path]:
        """The files that Envoy may read again, as it does when a listener changes."""
        files = {each.file for each in self._filters.values()}
        files |= {path for _, path in self._ready.values()}
        return frozenset(each for each in files if each is not None)

    def on_recovered(self, callback: Recovered) -> None:
        """Have `callback(type_url, name)` called when a module is there that was missing.

        The resource of that name is then to be rewritten once more, and given to Envoy.
        """
        self._on_recovered = callback

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Return whether resources of this type may have Wasm filters."""
        del node
        return type_url == EXTENSION_CONFIG

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the resources for Envoy; the same object for one that has nothing to rewrite.

        bodies: each resource's serialised `google.protobuf.Any`.
        """
        del node, type_url
        filters = [self._read(body) for body in bodies]
        rewritten = list(bodies)
        async with asyncio.TaskGroup() as group:
            for place, each in enumerate(filters):
                if each is not None:
                    work = self._rewrite(each, rewritten, place)
                    group.create_task(work, name=f"wasm-rewrite {each.name[:80]}")
        return rewritten

    async def stop(self) -> None:
        """End all attempts to get missing modules."""
        if tasks := {each.cancel() for each in self._recoveries.values()}:
            await asyncio.wait(tasks)

    def _read(self, body: bytes) -> WasmFilter | None:
        try:
            return read_filter(body)
        except WireError as error:
            # Envoy refuses it with a better reason.
            log.warning("wasm filter cannot be read", extra={"reason": str(error)})
            self._counters.on_conversion(Conversion.UNMARSHAL_FAILURE, 0.0)
            return None

    async def _rewrite(self, wasm: WasmFilter, rewritten: list[bytes], place: int) -> None:
        began = self._clock.monotonic()
        rewritten[place], result = await self._rewritten(wasm)
        self._counters.on_conversion(result, (self._clock.monotonic() - began) * 1000)

    async def _rewritten(self, wasm: WasmFilter) -> tuple[bytes, Conversion]:
        remote = wasm.settings.remote
        if remote is None:
            self._forget(wasm.name)
            return wasm.without_control_settings(), Conversion.NO_REMOTE_LOAD
        if not remote.url:
            self._is_missing(wasm, "the remote module has no http_uri", request=None)
            return wasm.with_fallback(), Conversion.MISS_REMOTE_FETCH_HINT
        request: ModuleRequest | None = None
        try:
            request = module_request(
                url=remote.url,
                checksum=remote.checksum,
                timeout_s=remote.timeout_s,
                environment=wasm.settings.environment,
            )
            path = await self._path(wasm.name, request)
        except FetchError as error:
            fetching = isinstance(error, StillFetching)
            self._is_missing(wasm, str(error), request=request, fetching=fetching)
            return wasm.with_fallback(), Conversion.FETCH_FAILURE
        self._end_recovery(wasm.name)
        self._set(wasm, file=path)
        return wasm.with_local_module(path), Conversion.SUCCESS

    async def _path(self, name: str, request: ModuleRequest) -> Path:
        asked, path = self._ready.pop(name, (None, None))
        if path is not None and asked == request:
            return path
        recovery = self._recoveries.get(name)
        status = self._filters.get(name)
        if recovery is not None and recovery.request == request and status is not None:
            # The same that failed a moment ago: Envoy need not wait for it again.
            recovery.hasten()
            raise FetchError(status.reason or "")
        return await self._get(request)

    def _is_missing(
        self,
        wasm: WasmFilter,
        reason: str,
        *,
        request: ModuleRequest | None,
        fetching: bool = False,
    ) -> None:
        name = wasm.name
        before = self._filters.get(name)
        if before is None or before.reason != reason:
            log.warning(
                "wasm module is missing, its filter is replaced",
                extra={
                    "filter": name,
                    "reason": reason,
                    "requests": "pass" if wasm.settings.fail_open else "are denied",
                },
            )
        self._set(wasm, reason=reason)
        running = self._recoveries.get(name)
        if running is not None and running.request == request:
            return
        self._end_recovery(name)
        if request is not None and name in self._filters:
            self._recoveries[name] = Recovery(
                request,
                get=self._get,
                recovered=lambda path: self._on_recovery(name, request, path),
                failed=lambda text: self._still_missing(name, text),
                backoff=self._backoff,
                at_once=fetching,
            )

    def _still_missing(self, name: str, reason: str) -> None:
        status = self._filters.get(name)
        if status is not None and status.reason != reason:
            log.warning("wasm module is still missing", extra={"filter": name, "reason": reason})
            self._filters[name] = FilterStatus(
                url=status.url,
                file=None,
                reason=reason,
                fail_open=status.fail_open,
                since=status.since,
            )

    def _on_recovery(self, name: str, request: ModuleRequest, path: Path) -> None:
        log.info("wasm module is there now", extra={"filter": name})
        del self._recoveries[name]
        self._ready[name] = (request, path)
        if self._on_recovered is not None:
            self._on_recovered(EXTENSION_CONFIG, name)

    def _set(
        self, wasm: WasmFilter, *, file: Path | None = None, reason: str | None = None
    ) -> None:
        remote = wasm.settings.remote
        before = self._filters.pop(wasm.name, None)
        unchanged = before is not None and (before.file is None) == (file is None)
        self._filters[wasm.name] = FilterStatus(
            url=_shown(remote.url if remote is not None else ""),
            file=file,
            reason=reason,
            fail_open=wasm.settings.fail_open,
            since=before.since if before is not None and unchanged else self._now(),
        )
        while len(self._filters) > _MOST_FILTERS:
            self._forget(next(iter(self._filters)))

    def _forget(self, name: str) -> None:
        self._filters.pop(name, None)
        self._ready.pop(name, None)
        self._end_recovery(name)

    def _end_recovery(self, name: str) -> None:
        if (recovery := self._recoveries.pop(name, None)) is not None:
            recovery.cancel()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), tz=UTC)


def _shown(url: str) -> str:
    """Return a URL without a query, and without a password."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host.rpartition("@")[2] + slash + path
