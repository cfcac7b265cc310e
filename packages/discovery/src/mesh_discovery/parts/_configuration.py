"""The configuration of a running control plane: what its sources know, served as it changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from mesh_discovery._config import DiscoveryConfig, SettingsError
from mesh_discovery._metrics import Metrics
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._mesh_figures import KeptFigures
from mesh_discovery.sources._all_sources import Sources
from mesh_discovery.sources._gateway_names import GatewayNames
from mesh_discovery.sources._merged_objects import MergedObjects
from mesh_discovery.sources._source import ObjectSource
from mesh_discovery.sources.files._file_source import read_files
from mesh_discovery.sources.files._loader import ConfigLoader
from mesh_discovery.sources.key_sets._key_set_fetcher import KeySetFetcher
from mesh_discovery.sources.registration._registered_workloads import RegisteredWorkloads
from mesh_discovery.sources.registration._workload_observer import WorkloadObserver
from mesh_lifecycle import in_background
from xds_server import PushRequest

_JUDGED_AFTER_S = 0.5
"""After a change. Its pushes begin a tenth of a second after it."""


class Notify(Protocol):
    """The xDS server's `notify`."""

    def __call__(self, request: PushRequest, *, quiet_since: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The facts about a mesh, served and followed.

    workloads: has to observe the streams of proxies.
    """

    store: ConfigStore
    sources: Sources
    workloads: WorkloadObserver

    @asynccontextmanager
    async def following(
        self, *, notify: Notify, on_served: Callable[[], None] | None = None
    ) -> AsyncIterator[None]:
        """Serve what changes, while the block runs.

        notify: called with what a push has to carry, and when that changed. on_served: called after
        each change.
        """
        changed = asyncio.Event()

        def serve(*, at: float | None = None) -> None:
            self.store.serve(self.sources.facts, partial(notify, quiet_since=at))
            self.sources.on_model(self.store.served.pending)
            changed.set()
            if on_served is not None:
                on_served()

        async with (
            in_background(self._review(changed), name="review of the configuration"),
            self.sources.following(serve),
        ):
            yield

    async def _review(self, changed: asyncio.Event) -> None:
        """Find what no proxy can reach, after a change and once its pushes are on their way.

        In a large mesh it takes as long as a push, and edits may follow each other closely.
        """
        while True:
            await changed.wait()
            await asyncio.sleep(_JUDGED_AFTER_S)
            changed.clear()
            await asyncio.to_thread(self.store.look_for_unreachable)


async def open_configuration(
    config: DiscoveryConfig, objects: Sequence[ObjectSource], *, metrics: Metrics
) -> Configuration:
    """Serve what is known at first; raises `ConfigError` if anything in files is wrong.

    objects: sources beside the files that the settings name. Raises `SettingsError`.
    """
    workloads = WorkloadObserver(
        RegisteredWorkloads(grace_s=config.workload_grace_s, limits=config.registration_limits)
    )
    key_sets = KeySetFetcher(guard=config.key_set_guard)
    found = await _objects(config, objects, metrics=metrics)
    sources = Sources(found, workloads, GatewayNames(), key_sets)
    store = ConfigStore(
        sources.facts,
        metrics=metrics,
        trust_domain=config.trust_domain,
        domain=config.domain,
        scope_gateways=config.scope_gateways,
        strict_namespaces=config.strict_namespaces,
    )
    sources.on_model(store.served.pending)
    figures = KeptFigures(lambda: (store.snapshot, store.served.current.model))
    metrics.watch_mesh(figures.now)
    metrics.key_sets_missing.set_function(lambda: key_sets.missing)
    metrics.watch_conflicts(
        lambda: len(store.served.current.conflicts), lambda: len(store.served.current.left_out)
    )
    return Configuration(store=store, sources=sources, workloads=workloads)


async def _objects(
    config: DiscoveryConfig, given: Sequence[ObjectSource], *, metrics: Metrics
) -> ObjectSource:
    """Return the files and the given sources as one; raises `SettingsError` if there is none."""
    found = [await _files(config, config.config_dir, metrics=metrics)] if config.config_dir else []
    found += given
    if not found:
        raise SettingsError(("neither config_dir nor a source of objects is given",))
    if config.config_dir is None and (config.mesh_config or config.mesh_networks):
        raise SettingsError(("mesh_config and mesh_networks are read beside config_dir: give it",))
    if len(found) == 1:
        return found[0]
    return MergedObjects(found, believe_timestamps=config.believe_timestamps)


async def _files(config: DiscoveryConfig, directory: Path, *, metrics: Metrics) -> ObjectSource:
    loader = ConfigLoader(
        directory,
        mesh_config=config.mesh_config,
        mesh_networks=config.mesh_networks,
        allow_unsupported=config.allow_unsupported,
        believe_timestamps=config.believe_timestamps,
    )
    return await read_files(loader, metrics=metrics)
