"""Runs Envoy for as long as a block runs: the face of it all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from envoy_supervisor._config import DrainDirection, EnvoyConfig, EnvoyState
from envoy_supervisor._errors import AdminError, EnvoyExited, EnvoyNotReady, RestartRefused
from envoy_supervisor._exit import Exit
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.decisions import _events as news
from envoy_supervisor.decisions._process_states import Phase, Stage
from envoy_supervisor.handover._hot_restart_files import id_file
from envoy_supervisor.processes._envoy_process import Child
from envoy_supervisor.processes._validation import check_handover, objection
from envoy_supervisor.processes._version import fetch_version
from envoy_supervisor.supervision._drain import answered_within, until_idle
from envoy_supervisor.supervision._handover import serving_envoy
from envoy_supervisor.supervision._supervisor import Supervisor
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

    def __init__(self, config: EnvoyConfig, supervisor: Supervisor, *, clock: Clock) -> None:
        self._config = config
        self._supervisor = supervisor
        self._clock = clock
        self._restarting = asyncio.Lock()
        self._drained: Child | None = None

    @property
    def state(self) -> EnvoyState:
        """How far it is; ready again and again if it is started again and again."""
        if self._supervisor.record.exited.done():
            return EnvoyState.EXITED
        if self._drained is not None or self._supervisor.fleet.phase is not Phase.RUNNING:
            return EnvoyState.DRAINING
        return EnvoyState.READY if self._supervisor.serving else EnvoyState.STARTING

    @property
    def pid(self) -> int:
        """The process that serves; while none does, the one started last."""
        return self._supervisor.current.process.pid

    @property
    def admin(self) -> AdminClient:
        """The admin interface of that process. It moves when a restart changes its address."""
        return self._supervisor.current.admin

    @property
    def status(self) -> EnvoyStatus:
        """What can be said of it now, as one snapshot."""
        supervisor, record = self._supervisor, self._supervisor.record
        fleet = supervisor.fleet
        stage = Stage.READY if fleet.first(Stage.READY) else Stage.STARTING
        member, child = fleet.first(stage), supervisor.child(stage)
        return EnvoyStatus(
            state=self.state,
            pid=child.process.pid if child else None,
            epoch=member.epoch if member else 0,
            version=member.version if member else fleet.wanted,
            restarts=record.restarts,
            refused=record.refused,
            crashes=record.crashes,
            retiring=sum(m.stage is Stage.RETIRING for m in fleet.members),
            kept_sockets=supervisor.keeper.count,
            handed_over=supervisor.keeper.handed_over,
            last_crash=record.last_crash,
            last_refusal=record.last_refusal,
        )

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until Envoy is live and serves.

        Raises `EnvoyExited` if it ends for good first, `EnvoyNotReady` if it takes too long.
        """
        record = self._supervisor.record
        ready = asyncio.create_task(record.ready.wait(), name="envoy ready")
        try:
            either: set[asyncio.Future[Any]] = {ready, record.exited}
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if record.ready.is_set():
            return
        if record.exited.done():
            raise EnvoyExited(record.exited.result())
        raise EnvoyNotReady(f"envoy (pid {self.pid}) was not ready within {timeout_s:g} s")

    async def wait_down(self) -> None:
        """Wait until a process ended that leaves none to serve: a crash, or the end for good.

        A hot restart is no such moment. Returns at once until the next process is started.
        """
        await self._supervisor.record.down.wait()

    async def wait_exit(self) -> Exit:
        """Wait until Envoy has ended for good: stopped, or given up after too many crashes."""
        return await asyncio.shield(self._supervisor.record.exited)

    async def drain(self) -> None:
        """Ask clients to leave, and go on serving: for a hook that runs before the stop.

        Leaving the context afterwards does not ask again. Raises `AdminError`.
        """
        self._supervisor.keeper.close()
        child = self._supervisor.current
        if child.process.exited.done():
            # Whoever answers there now is somebody else's.
            raise AdminError(f"envoy (pid {child.process.pid}) has ended and cannot be drained")
        await child.admin.drain_listeners(
            graceful=True,
            inbound_only=self._config.drain_direction is DrainDirection.INBOUND,
            # Envoy 1.37 and newer would exit after drain_time, in the middle of long requests.
            skip_exit=True,
        )
        self._drained = child
        log.info("envoy is draining", extra={"pid": child.process.pid})

    def listeners_changing(self) -> None:
        """Envoy is about to hear of other listeners: call this before it is told.

        With `EnvoyConfig.listener_changes_told`, before each response with listeners goes to
        Envoy. What is held for the case of a crash is released at once: a socket that Envoy closes
        must not stay open. Cheap; may be called any number of times, in any state.
        """
        self._supervisor.keeper.listeners_changing()

    def listeners_changed(self) -> None:
        """Envoy has answered the last response with listeners, with ACK or NACK.

        Until then nothing is held. Call it only if no later response is on its way to Envoy.
        """
        serving = self._supervisor.serving
        self._supervisor.keeper.listeners_changed(serving_envoy(serving) if serving else None)

    async def restart(self, config: EnvoyConfig | None = None) -> bool:
        """Replace the running Envoy by a new one without losing a request (hot restart).

        config: what to run from now on; None reads the bootstrap file and looks at the binary
            anew. `directory`, and everything about stopping, stays as it was at the start.

        Returns once the new Envoy serves; the old one finishes its requests in the background.
        Returns False, and does nothing, if the same is running already. Restarts wait for each
        other, and for the old Envoy of the one before to leave. Cancelling it ends the waiting; the
        new Envoy is tried all the same.

        Raises `RestartRefused` if the new one does not work (Envoy's own words say why) and
        `BootstrapError` or `EnvoySupervisorError` if it cannot be tried; the old one serves on.
        """
        supervisor = self._supervisor
        async with self._restarting:
            before = supervisor.wanted
            version = await fetch_version(config or before.config)
            if version.name == before.name and supervisor.fleet.good in (None, before.name):
                return False
            if not (version.config.hot_restart and self._config.hot_restart):
                raise RestartRefused("hot restart is switched off")
            serving = supervisor.serving
            await check_handover(
                before.config.binary,
                version.config.binary,
                id_file(self._config.directory, serving.member.family) if serving else None,
            )
            if (reason := await objection(version, self._config.directory)) is not None:
                supervisor.record.refuse(reason)
                raise RestartRefused(reason)
            await supervisor.replace(version)
            return True

    async def stop(self) -> None:
        """Drain, wait, end. Cancelling it skips what is left of the waiting."""
        try:
            await self._drain_and_wait()
        finally:
            await self._supervisor.end()

    async def _drain_and_wait(self) -> None:
        supervisor = self._supervisor
        pause_s = self._config.pre_drain_pause.total_seconds()
        drain_s = self._config.termination_drain.total_seconds()
        # A proxy that never became ready has no traffic to wait for.
        if not supervisor.record.ready.is_set() or await supervisor.ended_within(pause_s):
            return
        supervisor.tell(news.StopAsked())
        if supervisor.record.exited.done() or drain_s <= 0:
            return
        begun = self._clock.monotonic()
        if self._drained is not supervisor.current:
            try:
                await answered_within(drain_s, self.drain())
            except AdminError as error:
                log.warning("envoy was not told to drain", extra={"error": str(error)})
        await until_idle(supervisor, self._config, begun=begun, clock=self._clock)


@asynccontextmanager
async def running(config: EnvoyConfig, *, clock: Clock | None = None) -> AsyncIterator[Envoy]:
    """Run Envoy while the block runs; leaving it drains and stops Envoy, cancelled or not.

    The block is not disturbed when Envoy ends for good: `wait_exit` tells. Raises `EnvoyNotFound`
    and `EnvoySupervisorError` when it cannot be started; a configuration Envoy refuses shows as
    `EnvoyExited` from `wait_ready`.
    """
    clock = clock or SystemClock()
    supervisor = Supervisor(config, await fetch_version(config), clock=clock)
    envoy = Envoy(config, supervisor, clock=clock)
    try:
        supervisor.start()
        yield envoy
    finally:
        await envoy.stop()
