"""Modules by URL: out of the cache, or fetched, checked and put there.

Requests for one module at a time are one fetch. It does not end with those who asked, so that who
asks again later finds the module or the fetch that is under way.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from mesh_filewatch import run_in_thread
from mesh_lifecycle import Clock
from wasm_modules._config import WasmConfig
from wasm_modules._counters import Counters
from wasm_modules._errors import (
    ChecksumMismatch,
    DownloadError,
    FetchError,
    FetchResult,
    ManifestError,
    PassingFailure,
    StillFetching,
)
from wasm_modules._source import ModuleRequest, PullPolicy, parse_checksum
from wasm_modules.cache._store import Store, Wanted
from wasm_modules.fetching._downloading import download, retrying
from wasm_modules.fetching._http import fetching
from wasm_modules.fetching._network import Network
from wasm_modules.fetching._url import Url
from wasm_modules.oci._manifest import Layer, image_of_index, is_index, layers_of, parse_manifest
from wasm_modules.oci._pull_secret import Credentials, credentials_for
from wasm_modules.oci._reference import LATEST, SCHEME, Reference
from wasm_modules.oci._registry import Registry
from wasm_modules.unpacking._unpacking import NoModule, in_image, is_archive, unpack

log = logging.getLogger("wasm_modules")

_MOST_FETCHES = 16
_LONGEST_FETCH_S = 600.0
_GIVEN_S = 60.0
"""For so long a file stays that was handed out and may not be reported as used yet."""

T = TypeVar("T")


class _Source(NamedTuple):
    """A request that was read: an image, or a URL of HTTP."""

    wanted: Wanted
    image: Reference | None
    url: Url | None
    credentials: Credentials | None
    key: bytes
    """Equal for requests that one fetch answers."""


class Modules:
    """Gets modules; created by `getting_modules`."""

    def __init__(self, config: WasmConfig, *, clock: Clock, counters: Counters) -> None:
        self._config = config
        self._clock = clock
        self._counters = counters
        self._network = Network(config)
        self._store = Store(
            config.cache_root, max_module_bytes=config.max_module_bytes, now=clock.now
        )
        self._fetches: dict[bytes, asyncio.Task[Path]] = {}
        self._given: dict[Path, float] = {}
        self._slots = asyncio.Semaphore(_MOST_FETCHES)

    async def get(self, request: ModuleRequest) -> Path:
        """Return the file of a module, checked; raises FetchError."""
        path = await self._path(request)
        self._given[path] = self._clock.monotonic()
        return path

    async def _path(self, request: ModuleRequest) -> Path:
        source = read_source(request)
        if (found := await self.find(source.wanted)) is not None:
            self._counters.hits += 1
            return found
        self._counters.misses += 1
        timeout_s = request.timeout_s or self._config.default_timeout_s
        fetch = self._fetches.get(source.key)
        if fetch is None:
            fetch = self._start(source, timeout_s)
        done, _ = await asyncio.wait({fetch}, timeout=timeout_s)
        if not done:
            raise StillFetching(f"{source.wanted.reference}: not fetched within {timeout_s:g} s")
        if fetch.cancelled():
            raise FetchError(f"{source.wanted.reference}: not fetched, as the agent stops")
        return fetch.result()

    async def find(self, wanted: Wanted) -> Path | None:
        """Return the file of a module if it is in the cache."""
        try:
            return await self._in_thread(partial(self._store.find, wanted))
        except OSError as error:
            raise FetchError(
                f"{wanted.reference}: the cache {self._config.cache_root} cannot be read: {error}"
            ) from error

    async def purge(self, in_use: Collection[Path] = ()) -> None:
        """Remove the modules that were not used for the configured time; those in use are used."""
        given_since = self._clock.monotonic() - _GIVEN_S
        self._given = {path: at for path, at in self._given.items() if at > given_since}
        purge = partial(
            self._store.purge,
            unused_since=self._clock.now() - self._config.expiry_s,
            in_use={*in_use, *self._given},
        )
        self._counters.entries = await self._in_thread(purge)

    async def count(self) -> None:
        """Count the modules that are in the cache."""
        self._counters.entries = await self._in_thread(self._store.count)

    async def stop(self) -> None:
        """End all fetches."""
        if tasks := set(self._fetches.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _start(self, source: _Source, timeout_s: float) -> asyncio.Task[Path]:
        fetch = asyncio.create_task(
            self._fetch_within(source, min(self._patience_s(timeout_s), _LONGEST_FETCH_S)),
            name=f"wasm-fetch {source.wanted.reference[:80]}",
        )
        self._fetches[source.key] = fetch
        fetch.add_done_callback(partial(self._on_end, source.key))
        return fetch

    def _patience_s(self, timeout_s: float) -> float:
        """Return how long a fetch may take, which is longer than those who ask wait."""
        attempts = 1 + self._config.max_retries
        return max(timeout_s, attempts * self._config.request_timeout_s)

    def _on_end(self, key: bytes, fetch: asyncio.Task[Path]) -> None:
        del self._fetches[key]
        if not fetch.cancelled():
            fetch.exception()  # Those who wait have it; without them it is in the log.

    async def _fetch_within(self, source: _Source, patience_s: float) -> Path:
        result = FetchResult.FETCH_FAILURE
        try:
            async with asyncio.timeout(patience_s), self._slots:
                path = await self._fetch(source)
            result = FetchResult.SUCCESS
            log.info("wasm module fetched", extra={"source": source.wanted.reference})
            return path
        except TimeoutError:
            result = FetchResult.DOWNLOAD_FAILURE
            raise DownloadError(
                f"{source.wanted.reference}: not fetched within {patience_s:g} s"
            ) from None
        except FetchError as error:
            result = error.result
            raise
        except OSError as error:
            raise FetchError(
                f"{source.wanted.reference}: the cache {self._config.cache_root} cannot be used: "
                f"{error}"
            ) from error
        finally:
            self._counters.on_fetch(result)

    async def _fetch(self, source: _Source) -> Path:
        folder = await self._in_thread(self._store.new_folder)
        try:
            if source.image is not None:
                path = await self._pull(source, source.image, folder)
            else:
                path = await self._download(source, folder)
        finally:
            await self._in_thread(partial(self._store.remove_folder, folder))
        await self.count()
        return path

    async def _download(self, source: _Source, folder: Path) -> Path:
        """Get a module by HTTP."""
        url, wanted = source.url, source.wanted
        if url is None:
            raise RuntimeError("a module that is no image has a URL")
        packed, module = folder / "answer", folder / "module"

        async def attempt() -> str:
            await self._in_thread(partial(packed.unlink, missing_ok=True))
            async with self._timed(url), fetching(self._network, url) as answer:
                answer.check_status()
                return await download(answer, packed, most=self._config.max_module_bytes)

        came = await retrying(
            attempt,
            max_retries=self._config.max_retries,
            clock=self._clock,
            source=wanted.reference,
        )
        if wanted.checksum not in ("", came) and not await self._in_thread(
            partial(is_archive, packed)
        ):
            raise _mismatch(wanted, came)
        # The checksum may be that of the module in the archive.
        digest = await self._unpack(wanted, packed, module)
        if wanted.checksum not in ("", came, digest):
            raise _mismatch(wanted, digest)
        return await self._in_thread(
            partial(self._store.put, module, digest, wanted, frozenset({came}))
        )

    async def _pull(self, source: _Source, image: Reference, folder: Path) -> Path:
        """Get a module from a registry."""
        wanted = source.wanted
        registry = Registry(
            image,
            network=self._network,
            credentials=source.credentials,
            request_timeout_s=self._config.request_timeout_s,
        )
        retried = partial(
            retrying,
            max_retries=self._config.max_retries,
            clock=self._clock,
            source=wanted.reference,
        )
        which = f"sha256:{image.digest}" if image.digest else image.tag
        try:
            manifest = await retried(partial(registry.manifest, which))
            digests = {manifest.digest}
            content = parse_manifest(manifest.body)
            if is_index(content, manifest.media_type):
                inner = image_of_index(content)
                manifest = await retried(partial(registry.manifest, f"sha256:{inner}"))
                digests.add(manifest.digest)
                content = parse_manifest(manifest.body)
            layers = layers_of(content)
        except ManifestError as error:
            raise ManifestError(f"{image}: {error}") from error
        except DownloadError as error:
            raise ManifestError(str(error)) from error
        if wanted.checksum and wanted.checksum not in digests:
            raise ChecksumMismatch(
                f"{image}: its manifest's SHA-256 is {manifest.digest}, not {wanted.checksum}"
            )
        known = await self.find(wanted._replace(checksum=manifest.digest))
        if known is not None:
            note = partial(self._store.note, known.stem, wanted, frozenset(digests))
            await self._in_thread(note)
            return known
        module = folder / "module"
        left = self._config.max_module_bytes
        for number, layer in enumerate(layers):
            packed = folder / f"layer-{number}"
            await retried(partial(self._layer, registry, layer, packed, left))
            left -= (await self._in_thread(packed.stat)).st_size
            try:
                digest = await self._unpack(wanted, packed, module, layer)
            except NoModule:
                continue
            put = partial(self._store.put, module, digest, wanted, frozenset(digests))
            return await self._in_thread(put)
        raise FetchError(f"{image}: no layer has a file plugin.wasm, and none is a Wasm module")

    async def _layer(self, registry: Registry, layer: Layer, packed: Path, most: int) -> None:
        await self._in_thread(partial(packed.unlink, missing_ok=True))
        await registry.download_layer(layer, packed, most=most)

    async def _unpack(
        self, wanted: Wanted, packed: Path, module: Path, layer: Layer | None = None
    ) -> str:
        entry = in_image if layer is not None and not layer.is_module else None
        stopped = threading.Event()
        work = partial(
            unpack,
            packed,
            module,
            most=self._config.max_module_bytes,
            wanted=entry,
            is_stopped=stopped.is_set,
        )
        unpacking = asyncio.ensure_future(self._in_thread(work))
        try:
            return await asyncio.shield(unpacking)
        except asyncio.CancelledError:
            # The thread ends at its next block, and is waited for, also if this fetch is cancelled
            # again: it would write to a folder that is to be removed.
            stopped.set()
            while not unpacking.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({unpacking})
            unpacking.exception()
            raise
        except NoModule:
            raise
        except FetchError as error:
            raise FetchError(f"{wanted.reference}: {error}") from error

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await run_in_thread(work, path=self._config.cache_root / "modules", timeout_s=None)

    @asynccontextmanager
    async def _timed(self, url: Url) -> AsyncIterator[None]:
        timeout_s = self._config.request_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise PassingFailure(f"{url}: not answered within {timeout_s:g} s") from None


def read_source(request: ModuleRequest) -> _Source:
    """Read a request; raises FetchError for one that can never work."""
    checksum = parse_checksum(request.checksum)
    image: Reference | None = None
    url: Url | None = None
    credentials: Credentials | None = None
    policy = request.policy
    if request.url.startswith(SCHEME):
        image = Reference.parse(request.url)
        if image.digest and checksum not in ("", image.digest):
            raise FetchError(f"{image} is not the image with the checksum {checksum}")
        checksum = checksum or image.digest
        if policy is PullPolicy.UNSPECIFIED and image.tag == LATEST:
            policy = PullPolicy.ALWAYS
        if request.pull_secret is not None:
            credentials = credentials_for(image, request.pull_secret)
        name, reference = image.name, str(image)
    elif request.url.startswith(("http://", "https://")):
        url = Url.parse(request.url)
        name = reference = f"{url}{_hidden(url)}"
    else:
        scheme = request.url.partition(":")[0][:20]
        raise FetchError(f"{scheme!r} is no scheme of a module; http, https and oci are")
    wanted = Wanted(
        name=name,
        reference=reference,
        checksum=checksum,
        newest=policy is PullPolicy.ALWAYS,
        resource_version=request.resource_version,
    )
    key = repr((wanted, url, request.pull_secret)).encode()
    return _Source(wanted, image, url, credentials, hashlib.sha256(key).digest())


def _mismatch(wanted: Wanted, digest: str) -> ChecksumMismatch:
    return ChecksumMismatch(f"{wanted.reference}: its SHA-256 is {digest}, not {wanted.checksum}")


def _hidden(url: Url) -> str:
    """Return what tells URLs apart that differ in their query only, without the query."""
    query = url.target.partition("?")[2]
    return f"?{hashlib.sha256(query.encode()).hexdigest()[:16]}" if query else ""
