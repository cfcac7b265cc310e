"""Runs Envoy for as long as a block runs: what callers of this package hold in their hands."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import msgspec

from envoy_supervisor._config import DrainDirection, EnvoyConfig, EnvoyState
from envoy_supervisor._errors import AdminError, EnvoyExited, EnvoyNotReady, RestartRefused
from envoy_supervisor._exit import Exit
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.decisions import _events as events
from envoy_supervisor.decisions._state import Phase, Stage
from envoy_supervisor.handover._hot_restart_files import id_file
from envoy_supervisor.processes._envoy_process import EnvoyProcess
from envoy_supervisor.processes._validation import check_handover, refusal_reason
from envoy_supervisor.processes._version import fetch_version
from envoy_supervisor.supervision._drain import answered_within, until_idle
from envoy_supervisor.supervision._supervisor import Supervisor
from mesh_lifecycle import Clock, SystemClock

log = logging.getLogger(__name__)

_WITHOUT_APPLICATION = timedelta(seconds=2)


class EnvoyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a supervised Envoy, for status pages and metrics.

    epoch: how many hot restarts led to the serving process, since the last start without one.
    restarts: hot restarts that succeeded. refused: ones that did not. crashes: ends that were not
        asked for. retiring: old processes that still finish requests.
    retained_sockets: listening sockets that are held open in case Envoy dies. handed_over: sockets
        on which connections waited for a new Envoy after a crash, in all.
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
    retained_sockets: int
    handed_over: int
    last_crash: str | None
    last_refusal: str | None


class Envoy:
    """A supervised Envoy. Created by `running`."""

    def __init__(self, config: EnvoyConfig, supervisor: Supervisor, *, clock: Clock) -> None:
        self._config = config
        self._supervisor = supervisor
        self._clock = clock
        self._restarting = asyncio.Lock()
        self._drained: EnvoyProcess | None = None

    @property
    def state(self) -> EnvoyState:
        """How far Envoy is. After a crash it is starting, and then ready again."""
        if self._supervisor.status.exited.done():
            return EnvoyState.EXITED
        if self._drained is not None or self._supervisor.state.phase is not Phase.RUNNING:
            return EnvoyState.DRAINING
        return EnvoyState.READY if self._supervisor.serving else EnvoyState.STARTING

    @property
    def pid(self) -> int:
        """The process that serves; while none does, the one started last."""
        return self._supervisor.current.pid

    @property
    def admin(self) -> AdminClient:
        """The admin interface of that process. It moves when a restart changes its address."""
        return self._supervisor.current.admin

    @property
    def status(self) -> EnvoyStatus:
        """One snapshot of everything that is known now."""
        supervisor, status = self._supervisor, self._supervisor.status
        states = supervisor.state
        stage = Stage.READY if states.first(Stage.READY) else Stage.STARTING
        shown, process = states.first(stage), supervisor.process(stage)
        return EnvoyStatus(
            state=self.state,
            pid=process.pid if process else None,
            epoch=shown.epoch if shown else 0,
            version=shown.version if shown else states.wanted,
            restarts=status.restarts,
            refused=status.refused,
            crashes=status.crashes,
            retiring=sum(each.stage is Stage.RETIRING for each in states.processes),
            retained_sockets=supervisor.retention.count,
            handed_over=supervisor.retention.handed_over,
            last_crash=status.last_crash,
            last_refusal=status.last_refusal,
        )

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until Envoy is live and serves.

        Raises `EnvoyExited` if it ends for good first, `EnvoyNotReady` if it takes too long.
        """
        status = self._supervisor.status
        ready = asyncio.create_task(status.ready.wait(), name="envoy ready")

        def end_wait(_: asyncio.Future[Exit]) -> None:
            ready.cancel()

        status.exited.add_done_callback(end_wait)
        try:
            await asyncio.wait({ready}, timeout=timeout_s)
        finally:
            status.exited.remove_done_callback(end_wait)
            ready.cancel()
        if status.ready.is_set():
            return
        if status.exited.done():
            raise EnvoyExited(status.exited.result())
        raise EnvoyNotReady(f"envoy (pid {self.pid}) was not ready within {timeout_s:g} s")

    async def wait_down(self) -> None:
        """Wait until a process ended that leaves none to serve: a crash, or the end for good.

        A hot restart does not count. Returns at once until the next process is started.
        """
        await self._supervisor.status.down.wait()

    async def wait_retained(self, timeout_s: float) -> None:
        """Wait until the sockets of the Envoy that serves are retained, or it ends.

        From then on a crash refuses no connection; before, one does. Returns after the time all the
        same: an Envoy that can't be asked for its sockets serves as well as any.

        timeout_s: seconds; a fetch takes some milliseconds, a listener that warms may take long.
        """
        status = self._supervisor.status
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await status.ready.wait()
                await self._supervisor.retention.wait_settled()

    async def wait_exit(self) -> Exit:
        """Wait until Envoy has ended for good: stopped, or given up after too many crashes."""
        return await asyncio.shield(self._supervisor.status.exited)

    def reopen_logs(self) -> None:
        """Have the Envoy that serves open its access logs anew, after they were moved aside."""
        if (process := self._supervisor.serving) is not None:
            process.signal(signal.SIGUSR1)

    async def drain(self) -> None:
        """Ask clients to leave, and go on serving: for a hook that runs before the stop.

        Leaving the context afterwards does not ask again. Raises `AdminError`.
        """
        self._supervisor.retention.close()
        process = self._supervisor.current
        if process.exited.done():
            # An answer at that address would come from another program.
            raise AdminError(f"envoy (pid {process.pid}) has ended and cannot be drained")
        await process.admin.drain_listeners(
            graceful=True,
            inbound_only=self._config.drain_direction is DrainDirection.INBOUND,
            # Envoy 1.37 and newer would exit after drain_time, in the middle of long requests.
            skip_exit=True,
        )
        self._drained = process
        log.info("envoy is draining", extra={"pid": process.pid})

    def listeners_changing(self) -> None:
        """Envoy is about to hear of other listeners: call this before it does.

        With `EnvoyConfig.listener_changes_reported`, before each response with listeners goes to
        Envoy. The retained sockets are released at once: a socket that Envoy closes must not stay
        open. Cheap; may be called any number of times, in any state.
        """
        self._supervisor.retention.listeners_changing()

    def listeners_changed(self) -> None:
        """Envoy has answered the last response with listeners, with ACK or NACK.

        Until then no socket is retained. Call it only if no later response is on its way to Envoy.
        """
        self._supervisor.retention.listeners_changed()

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
            if version.name == before.name and supervisor.state.last_good in (None, before.name):
                return False
            if not (version.config.hot_restart and self._config.hot_restart):
                raise RestartRefused("hot restart is switched off")
            serving = supervisor.serving
            await check_handover(
                before.config.binary,
                version.config.binary,
                id_file(self._config.directory, serving.started_as.series) if serving else None,
            )
            if (reason := await refusal_reason(version, self._config.directory)) is not None:
                supervisor.status.on_refusal(reason)
                raise RestartRefused(reason)
            await supervisor.replace(version)
            return True

    def shorten_drain(self, longest: timedelta = _WITHOUT_APPLICATION) -> None:
        """When stopping, wait for open connections no longer than this.

        For when the application has ended and no request can be answered any more.
        """
        drain = min(longest, self._config.termination_drain)
        self._config = replace(
            self._config,
            termination_drain=drain,
            minimum_drain=min(longest, self._config.minimum_drain),
            pre_drain_pause=timedelta(0),
        )

    async def stop(self) -> None:
        """Drains, waits for open connections, and ends Envoy. Cancelling it skips the waiting."""
        try:
            await self._drain_and_wait()
        finally:
            await self._supervisor.end()

    async def _drain_and_wait(self) -> None:
        supervisor = self._supervisor
        pause_s = self._config.pre_drain_pause.total_seconds()
        drain_s = self._config.termination_drain.total_seconds()
        # A proxy that never became ready has no traffic to wait for.
        if not supervisor.status.ready.is_set() or await supervisor.ended_within(pause_s):
            return
        supervisor.handle(events.StopRequested())
        if supervisor.status.exited.done() or drain_s <= 0:
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
