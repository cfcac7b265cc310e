"""Runs Envoy for as long as a block runs: the face of it all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from envoy_supervisor import _news as news
from envoy_supervisor._admin import AdminClient
from envoy_supervisor._check import hot_restart_version, objection
from envoy_supervisor._config import DrainDirection, EnvoyConfig, EnvoyState
from envoy_supervisor._crew import Crew
from envoy_supervisor._errors import AdminError, EnvoyExited, EnvoyNotReady, RestartRefused
from envoy_supervisor._exit import Exit
from envoy_supervisor._hot_restart import id_file, read_base_id
from envoy_supervisor._members import Phase, Stage
from envoy_supervisor._version import Version, read_version
from envoy_supervisor._waiting import until_idle
from mesh_lifecycle import Clock, SystemClock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyStatus:
    """One moment of a supervised Envoy, for status pages and metrics.

    epoch: the serving process's place in its family; others took over from each other before it.
    restarts: hot restarts that succeeded. refused: ones that did not. crashes: ends nobody asked
        for. retiring: old processes that still finish requests.
    kept_sockets: listening sockets that are held open in case Envoy dies. handed_over: sockets on
        which connections waited for a new Envoy after a crash, in all.
    last_crash: why Envoy last ended by itself. last_refusal: why the last restart was refused.
    """

    state: EnvoyState
    pid: int | None
    epoch: int
    version: str
    restarts: int
    refused: int
    crashes: int
    retiring: int
    kept_sockets: int
    handed_over: int
    last_crash: str | None
    last_refusal: str | None


class Envoy:
    """A supervised Envoy. Made by `running`."""

    def __init__(self, config: EnvoyConfig, crew: Crew, *, clock: Clock) -> None:
        self._config = config
        self._crew = crew
        self._clock = clock
        self._running = config
        self._restarting = asyncio.Lock()
        self._drain_asked = False

    @property
    def state(self) -> EnvoyState:
        """How far it is; ready again and again if it is started again and again."""
        if self._crew.exited.done():
            return EnvoyState.EXITED
        if self._drain_asked or self._crew.fleet.phase is not Phase.RUNNING:
            return EnvoyState.DRAINING
        return EnvoyState.READY if self._crew.fleet.first(Stage.READY) else EnvoyState.STARTING

    @property
    def pid(self) -> int:
        """The process that serves; while none does, the one started last."""
        return self._crew.current.process.pid

    @property
    def admin(self) -> AdminClient:
        """The admin interface of that process. It moves when a restart changes its address."""
        return self._crew.current.admin

    @property
    def status(self) -> EnvoyStatus:
        """What can be said of it now, as one snapshot."""
        fleet, counts = self._crew.fleet, self._crew.counts
        member = fleet.first(Stage.READY) or fleet.first(Stage.STARTING)
        child = self._crew.child(member.number) if member else None
        return EnvoyStatus(
            state=self.state,
            pid=child.process.pid if child else None,
            epoch=member.epoch if member else 0,
            version=member.version if member else fleet.wanted,
            restarts=counts.restarts,
            refused=counts.refused,
            crashes=counts.crashes,
            retiring=sum(m.stage is Stage.RETIRING for m in fleet.members),
            kept_sockets=self._crew.keeper.count,
            handed_over=self._crew.keeper.handed_over,
            last_crash=counts.last_crash,
            last_refusal=counts.last_refusal,
        )

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until Envoy is live and serves.

        Raises `EnvoyExited` if it ends for good first, `EnvoyNotReady` if it takes too long.
        """
        ready = asyncio.create_task(self._crew.ready.wait(), name="envoy ready")
        try:
            either: set[asyncio.Future[Any]] = {ready, self._crew.exited}
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._crew.ready.is_set():
            return
        if self._crew.exited.done():
            raise EnvoyExited(self._crew.exited.result())
        raise EnvoyNotReady(f"envoy (pid {self.pid}) was not ready within {timeout_s:g} s")

    async def wait_down(self) -> None:
        """Wait until a process ended that leaves none to serve: a crash, or the end for good.

        A hot restart is no such moment. Returns at once until the next process is started.
        """
        await self._crew.down.wait()

    async def wait_exit(self) -> Exit:
        """Wait until Envoy has ended for good: stopped, or given up after too many crashes."""
        return await asyncio.shield(self._crew.exited)

    async def drain(self) -> None:
        """Ask clients to leave, and go on serving: for a hook that runs before the stop.

        Leaving the context afterwards does not ask again. Raises `AdminError`.
        """
        self._crew.keeper.close()
        await self.admin.drain_listeners(
            graceful=True,
            inbound_only=self._config.drain_direction is DrainDirection.INBOUND,
            # Envoy 1.37 and newer would exit after drain_time, in the middle of long requests.
            skip_exit=True,
        )
        self._drain_asked = True
        log.info("envoy is draining", extra={"pid": self.pid})

    def listeners_changing(self) -> None:
        """Envoy is about to hear of other listeners: call this before it is told.

        With `EnvoyConfig.listener_changes_told`, before each response with listeners goes to
        Envoy. What is held for the case of a crash is released at once: a socket that Envoy closes
        must not stay open. Cheap; may be called any number of times, in any state.
        """
        self._crew.keeper.listeners_changing()

    def listeners_changed(self) -> None:
        """Envoy has answered the last response with listeners, with ACK or NACK.

        Until then nothing is held. Call it only if no later response is on its way to Envoy.
        """
        serving = self._crew.fleet.first(Stage.READY)
        self._crew.keeper.listeners_changed(self._crew.child(serving.number) if serving else None)

    async def restart(self, config: EnvoyConfig | None = None) -> bool:
        """Replace the running Envoy by a new one without losing a request (hot restart).

        config: what to run from now on; None reads the bootstrap file and looks at the binary
            anew. `directory`, and everything about stopping, stays as it was at the start.

        Returns once the new Envoy serves; the old one finishes its requests in the background.
        Returns False, and does nothing, if the same is running already. Restarts wait for each
        other, and for the old Envoy of the one before to leave.

        Raises `RestartRefused` if the new one does not work (Envoy's own words say why) and
        `BootstrapError` or `EnvoySupervisorError` if it cannot be tried; the old one serves on.
        """
        async with self._restarting:
            version = read_version(config or self._running)
            if version.name == self._crew.fleet.wanted:
                return False
            await self._check(version)
            await self._crew.replace(version)
            self._running = version.config
            return True

    async def stop(self) -> None:
        """Drain, wait, end. Cancelling it skips what is left of the waiting."""
        try:
            await self._drain_and_wait()
        finally:
            await self._crew.end()

    async def _drain_and_wait(self) -> None:
        crew = self._crew
        pause_s = self._config.pre_drain_pause.total_seconds()
        # A proxy that never became ready has no traffic to wait for.
        if not crew.ready.is_set() or await crew.ended_within(pause_s):
            return
        crew.tell(news.StopAsked())
        if crew.exited.done() or self._config.termination_drain.total_seconds() <= 0:
            return
        if not self._drain_asked:
            try:
                await self.drain()
            except AdminError as error:
                log.warning("envoy was not told to drain", extra={"error": str(error)})
        await until_idle(
            self._config,
            self.admin,
            crew.current.version.own_listeners,
            clock=self._clock,
            ended_within=crew.ended_within,
            others_serve=self._old_connections_unknown,
        )

    def _old_connections_unknown(self) -> bool:
        """Whether an old process may have connections that the new one does not report yet.

        The old one has no admin interface any more; the new one adds the old one's numbers to its
        own each time it brings its statistics up to date. They only go down: the old one accepts
        nothing, so a late zero is a true one.
        """
        retiring = self._crew.fleet.first(Stage.RETIRING)
        if retiring is None:
            return False
        current = self._crew.current
        if (retiring.family, retiring.epoch + 1) != (current.member.family, current.member.epoch):
            # The one that would have reported them has died.
            return True
        reported_at = current.ready_at + current.version.stats_flush_s + 1.0
        return self._clock.monotonic() < reported_at

    async def _check(self, version: Version) -> None:
        if not (version.config.hot_restart and self._config.hot_restart):
            raise RestartRefused("hot restart is switched off")
        if (serving := self._crew.fleet.first(Stage.READY)) is not None:
            file = id_file(self._config.directory, serving.family)
            if read_base_id(file) is None:
                raise RestartRefused(
                    f"{file} does not say which envoy to take over from (was the disk full when "
                    "that one started?): stop it and start anew"
                )
        if version.config.binary != self._running.binary:
            new = await hot_restart_version(version.config.binary)
            old = await hot_restart_version(self._running.binary)
            if new != old:
                raise RestartRefused(
                    f"{version.config.binary} cannot take over from {self._running.binary}: their "
                    f"hot restart versions differ ({new} and {old})"
                )
        if (reason := await objection(version, self._config.directory)) is not None:
            self._crew.refuse(reason)
            raise RestartRefused(reason)


@asynccontextmanager
async def running(config: EnvoyConfig, *, clock: Clock | None = None) -> AsyncIterator[Envoy]:
    """Run Envoy while the block runs; leaving it drains and stops Envoy, cancelled or not.

    The block is not disturbed when Envoy ends for good: `wait_exit` tells. Raises `EnvoyNotFound`
    and `EnvoySupervisorError` when it cannot be started; a configuration Envoy refuses shows as
    `EnvoyExited` from `wait_ready`.
    """
    clock = clock or SystemClock()
    crew = Crew(config, read_version(config), clock=clock)
    envoy = Envoy(config, crew, clock=clock)
    try:
        crew.start()
        yield envoy
    finally:
        await envoy.stop()
