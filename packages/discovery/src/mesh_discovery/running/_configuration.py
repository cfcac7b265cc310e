"""The configuration of a running control plane: read at the start, then again when files change."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery.config._first_load import first_reading
from mesh_discovery.config._loader import ConfigLoader, Load
from mesh_discovery.config._watch import FileChanges, read_in_thread, watching_files
from mesh_discovery.push._config_store import NO_WORKLOADS, ConfigStore, Workloads
from mesh_discovery.push._gateway_names import GatewayNames
from mesh_discovery.push.key_sets._key_set_fetcher import KeySetFetcher
from mesh_filewatch import ReadTimedOut, run_in_thread
from mesh_lifecycle import in_background
from xds_server import PushRequest

_T = TypeVar("_T")
_JUDGED_AFTER_S = 0.5
"""After a change. Its pushes begin a tenth of a second after it."""
_SUMMARY_TIMEOUT_S = 4.0
"""The client that asks for the page waits for it, five seconds at the most."""


class Notify(Protocol):
    """The xDS server's `notify`."""

    def __call__(self, request: PushRequest, *, quiet_since: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfiguration:
    """A configuration that was read and can be followed."""

    store: ConfigStore
    loader: ConfigLoader
    first: Load
    metrics: Metrics
    _applied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while what was read last is what is served: not while files are read."""

    async def is_of_files_now(self) -> bool:
        """Return whether what is served is what the files hold now, wrong files left aside."""
        summary = self.loader.signature
        try:
            found = await run_in_thread(
                summary,
                path=self.loader.directory / "any",
                key=(summary, "asked for"),
                timeout_s=_SUMMARY_TIMEOUT_S,
            )
        except ReadTimedOut:
            return False
        return self._applied.is_set() and found == self.loader.seen()

    @asynccontextmanager
    async def following(
        self, *, notify: Notify, on_loaded: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Load the files again whenever they change, while the block runs.

        notify: told of what a push has to carry, and when the files changed. on_loaded: called
        after each further reading.
        """
        watching = watching_files(
            self.loader.directory,
            directories=self.first.directories,
            summary=self.loader.signature,
            seen=self.loader.seen,
        )
        async with watching as changes:
            changed = asyncio.Event()
            following = self._follow(changes, changed, notify=notify, on_loaded=on_loaded)
            async with (
                in_background(self._judge(changed), name="judgement of the configuration"),
                in_background(following, name="configuration"),
            ):
                yield

    async def _follow(
        self,
        changes: FileChanges,
        changed: asyncio.Event,
        *,
        notify: Notify,
        on_loaded: Callable[[], None],
    ) -> None:
        self._applied.set()
        while True:
            change = await changes.wait()
            self._applied.clear()
            reading = partial(self._timed_load, change.entries)
            load = await read_in_thread(reading, self.loader.directory)
            self.store.apply(load, partial(notify, quiet_since=change.at))
            self._applied.set()
            changed.set()
            on_loaded()
            whole, directories = load.whole, load.directories
            del load  # so that the next reading lets go of this one, and not the event loop
            if whole:
                await changes.follow(directories)

    async def _judge(self, changed: asyncio.Event) -> None:
        """Look for what can't be reached after changes, once the pushes of them are on their way.

        In a large mesh it takes as long as a push, and edits may follow each other closely.
        """
        while True:
            await changed.wait()
            await asyncio.sleep(_JUDGED_AFTER_S)
            changed.clear()
            await asyncio.to_thread(self.store.look_for_unreachable)

    def _timed_load(self, changed: Iterable[tuple[str, str]] | None) -> Load:
        started = time.perf_counter()
        load = self.loader.load(changed)
        self.metrics.config_load_time.observe(time.perf_counter() - started)
        return load


async def read_configuration(
    config: DiscoveryConfig,
    *,
    metrics: Metrics,
    workloads: Workloads = NO_WORKLOADS,
    gateways: GatewayNames | None = None,
    key_sets: KeySetFetcher | None = None,
) -> ReadConfiguration:
    """Read the configuration for the first time; raises `ConfigError` if anything is wrong.

    workloads: those that are known by their proxies. gateways: looks up their names.
    key_sets: fetches those of issuers of tokens.
    """
    loader = ConfigLoader(
        config.config_dir,
        mesh_config=config.mesh_config,
        mesh_networks=config.mesh_networks,
        allow_unsupported=config.allow_unsupported,
        believe_timestamps=config.believe_timestamps,
    )
    first = await _first(loader.load, loader)
    store = ConfigStore(
        first,
        metrics=metrics,
        trust_domain=config.trust_domain,
        domain=config.domain,
        scope_gateways=config.scope_gateways,
        strict_namespaces=config.strict_namespaces,
        workloads=workloads,
        gateways=gateways,
        key_sets=key_sets,
    )
    return ReadConfiguration(store=store, loader=loader, first=first, metrics=metrics)


async def _first(work: Callable[[], _T], loader: ConfigLoader) -> _T:
    guarded = partial(first_reading, work, loader)
    return await run_in_thread(guarded, path=loader.directory / "any", timeout_s=None)
