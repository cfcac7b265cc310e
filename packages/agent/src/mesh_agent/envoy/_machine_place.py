"""Tells Envoy where its machine is, as the cloud says.

The agent's first Envoy waits a moment for the answer, which takes some milliseconds. An Envoy that
starts before the answer starts without: its node can't change while it runs. The next one has it,
and the agent's next run has it from the beginning.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from envoy_supervisor import BootstrapConfig, EnvoyConfig, Locality
from mesh_agent.config._machine_place import PlaceConfig
from mesh_filewatch import ReadTimedOut, run_in_thread
from mesh_lifecycle import in_background
from mesh_platform import Platform

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 0.1


class MachinePlace:
    """The machine's place, as far as it is known."""

    def __init__(self, known: Platform | None) -> None:
        self._platform = known
        self._used = False
        self._answered = asyncio.Event()

    @property
    def is_known(self) -> bool:
        return self._platform is not None

    async def wait_first_answer(self, timeout_s: float = _LONGEST_WAIT_S) -> None:
        """Wait until the place is known, or the cloud has failed to tell; at most that long."""
        if not self.is_known:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._answered.wait()

    def on_answer(self) -> None:
        """The cloud has answered, or does not."""
        self._answered.set()

    def applied(self, envoy: EnvoyConfig) -> EnvoyConfig:
        """Return the configuration of an Envoy that starts now.

        A locality of the workload's labels wins over the machine's.
        """
        self._used = True
        bootstrap, platform = envoy.bootstrap, self._platform
        if platform is None or not isinstance(bootstrap, BootstrapConfig):
            return envoy
        locality = bootstrap.locality
        if not locality.region:
            locality = Locality(region=platform.region, zone=platform.zone)
        metadata = {**bootstrap.node_metadata, "PLATFORM_METADATA": dict(platform.metadata)}
        placed = replace(bootstrap, locality=locality, node_metadata=metadata)
        return replace(envoy, bootstrap=placed)

    def found(self, platform: Platform) -> bool:
        """Take the cloud's answer; returns whether it differs from what was known."""
        differs, self._platform = platform != self._platform, platform
        if differs:
            facts = {"region": platform.region, "zone": platform.zone}
            if self._used:
                log.warning(
                    "the machine's place became known after Envoy had started: Envoy has it after "
                    "a restart (POST /restart)",
                    extra=facts,
                )
            else:
                log.info("the machine's place is known", extra=facts)
        return differs


@asynccontextmanager
async def machine_place(config: PlaceConfig) -> AsyncIterator[MachinePlace]:
    """Ask the cloud while the block runs; yields at once."""
    place = MachinePlace(config.known)
    if config.provider is None:
        place.on_answer()
        yield place
        return
    async with in_background(_ask(config, place), name="machine-place"):
        yield place


async def _ask(config: PlaceConfig, place: MachinePlace) -> None:
    """Ask once, then wait to be cancelled."""
    from mesh_platform import MetadataAddress, MetadataServers, NoMetadata, detect

    servers = MetadataServers()._replace(
        **{provider: MetadataAddress(host, port) for provider, host, port in config.servers}
    )
    if config.provider is not None:
        try:
            platform = await detect(config.provider, servers=servers)
        except NoMetadata as error:
            log.warning("the machine's place is not known", extra={"reason": str(error)})
            place.on_answer()
        else:
            platform = platform._replace(metadata={**platform.metadata, **dict(config.extra)})
            differs = place.found(platform)
            place.on_answer()
            if differs:
                await _remember(config.remembered, platform)
    await asyncio.Event().wait()


async def _remember(path: Path, platform: Platform) -> None:
    try:
        await run_in_thread(partial(_write, path, json.dumps(platform)), path=path)
    except (OSError, ReadTimedOut) as error:
        log.warning("the machine's place can't be kept", extra={"reason": str(error)})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)
