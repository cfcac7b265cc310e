"""Configuration that follows its files."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import partial

from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery.config._loader import ConfigLoader, Load
from mesh_discovery.config._watch import FileChanges, aside, watching_files
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._config_store import ConfigStore
from mesh_lifecycle import in_background
from xds_server import XdsServer


@asynccontextmanager
async def following_files(
    config: DiscoveryConfig,
    *,
    loader: ConfigLoader,
    seen: Hashable,
    first: Load,
    store: ConfigStore,
    metrics: Metrics,
    server: XdsServer[Proxy],
    on_loaded: Callable[[], None],
) -> AsyncIterator[None]:
    """Take up every change of the files while the block runs.

    seen: what the files were like before they were read for the `first` time.
    on_loaded: called after each further reading.
    """
    watching = watching_files(
        config.config_dir, directories=first.directories, summary=loader.signature, seen=seen
    )
    async with watching as changes:
        following = _follow(
            changes,
            loader=loader,
            store=store,
            metrics=metrics,
            server=server,
            on_loaded=on_loaded,
        )
        async with in_background(following, name="configuration"):
            yield


async def _follow(
    changes: FileChanges,
    *,
    loader: ConfigLoader,
    store: ConfigStore,
    metrics: Metrics,
    server: XdsServer[Proxy],
    on_loaded: Callable[[], None],
) -> None:
    """Load the files again whenever they changed, for ever."""
    while True:
        await changes.wait()
        load = await aside(partial(_timed_load, loader, metrics), loader.directory)
        store.take(load, server.notify)
        await asyncio.to_thread(store.look_for_unreachable)
        on_loaded()
        await changes.follow(load.directories)


def _timed_load(loader: ConfigLoader, metrics: Metrics) -> Load:
    started = time.perf_counter()
    load = loader.load()
    metrics.config_load_time.observe(time.perf_counter() - started)
    return load
