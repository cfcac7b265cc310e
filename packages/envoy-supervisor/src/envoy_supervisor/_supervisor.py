"""Runs one Envoy for as long as a block runs, and stops it gracefully at the end."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._admin import AdminClient
from envoy_supervisor._arguments import envoy_arguments
from envoy_supervisor._bootstrap import BootstrapConfig, render_bootstrap
from envoy_supervisor._bootstrap_file import admin_address, sets_log_format
from envoy_supervisor._config import DrainDirection, EnvoyConfig
from envoy_supervisor._drain import Drain, DrainStep, after_failure, after_reading, plan_drain
from envoy_supervisor._errors import AdminError, EnvoyExited, EnvoyNotReady, EnvoySupervisorError
from envoy_supervisor._exit import Exit, ExitCause, explain_exit
from envoy_supervisor._log import OutputLog
from envoy_supervisor._memory import MemoryWatch, watch_memory
from envoy_supervisor._process import Process, spawn, write_private
from envoy_supervisor._state import EnvoyState, moved
from envoy_supervisor._stats import active_connections
from mesh_lifecycle import Clock, SystemClock, in_background

log = logging.getLogger(__name__)

READY_POLL_S = 0.02
READY_POLL_SLOW_S = 0.25
IDLE_POLL_S = 0.05
IDLE_POLL_SLOW_S = 0.5
CONNECTIONS_FILTER = r"^listener\..*downstream_cx_active$"


class Envoy:
    """A supervised Envoy. Made by `running`."""

    def __init__(
        self, config: EnvoyConfig, admin: AdminClient, process: Process, *, clock: Clock
    ) -> None:
        self.admin = admin
        self.pid = process.pid
        self._config = config
        self._process = process
        self._clock = clock
        self._state = EnvoyState.STARTING
        self._started = clock.monotonic()
        self._told_to = False
        self._drain_asked = False
        self._ready = asyncio.Event()
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._output = OutputLog(pid=lambda: process.pid, monotonic=clock.monotonic)
        self._memory: MemoryWatch | None = watch_memory(process.pid)
        process.exited.add_done_callback(self._on_exit)
        process.listen(self._output.feed, self._output.close)

    @property
    def state(self) -> EnvoyState:
        return self._state

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until Envoy is live and serves.

        Raises `EnvoyExited` if it ends first, `EnvoyNotReady` if it takes too long.
        """
        ready = asyncio.create_task(self._ready.wait(), name="envoy ready")
        try:
            either: set[asyncio.Future[Any]] = {ready, self._exit}
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._ready.is_set():
            return
        if self._exit.done():
            raise EnvoyExited(self._exit.result())
        raise EnvoyNotReady(f"envoy (pid {self.pid}) was not ready within {timeout_s:g} s")

    async def wait_exit(self) -> Exit:
        """Wait until Envoy has ended, for whatever reason."""
        return await asyncio.shield(self._exit)

    async def drain(self) -> None:
        """Ask clients to leave, and go on serving: for a hook that runs before the stop.

        Leaving the context afterwards does not ask again. Raises `AdminError`.
        """
        await self.admin.drain_listeners(
            graceful=True,
            inbound_only=self._config.drain_direction is DrainDirection.INBOUND,
            # Envoy 1.37 and newer would exit after drain_time, in the middle of long requests.
            skip_exit=True,
        )
        self._drain_asked = True
        self._move(EnvoyState.DRAINING)
        log.info("envoy is draining", extra={"pid": self.pid})

    def _move(self, wanted: EnvoyState) -> bool:
        before, self._state = self._state, moved(self._state, wanted)
        return self._state is not before

    def _on_exit(self, exited: asyncio.Future[int]) -> None:
        outcome = explain_exit(
            exited.result(), self._output.kept, told_to=self._told_to, memory=self._memory
        )
        self._move(EnvoyState.EXITED)
        facts = {"pid": self.pid, "reason": outcome.reason, "cause": str(outcome.cause)}
        if self._told_to:
            log.info("envoy stopped", extra=facts)
        elif outcome.cause is ExitCause.STOPPED:
            log.warning("envoy exited", extra=facts)
        else:
            log.error("envoy failed", extra=facts)
        self._exit.set_result(outcome)

    async def watch(self) -> None:
        """Poll until Envoy is ready, then only stay. Runs until cancelled."""
        interval_s = READY_POLL_S
        while self._state is EnvoyState.STARTING:
            if await self.admin.ready() and self._move(EnvoyState.READY):
                took_s = round(self._clock.monotonic() - self._started, 3)
                log.info("envoy is ready", extra={"pid": self.pid, "after_s": took_s})
                self._ready.set()
                break
            await self._clock.sleep(interval_s)
            interval_s = min(READY_POLL_SLOW_S, interval_s * 1.1)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Drain, wait, end. Cancelling it skips what is left of the waiting."""
        begun = self._clock.monotonic()
        try:
            # A proxy that never became ready has no traffic to wait for.
            if self._ready.is_set() and self._config.termination_drain.total_seconds() > 0:
                await self._drain_and_wait()
        finally:
            await self._end()
            log.debug(
                "envoy is gone",
                extra={"pid": self.pid, "took_s": round(self._clock.monotonic() - begun, 3)},
            )

    async def _drain_and_wait(self) -> None:
        if self._exit.done():
            return
        drain = Drain(
            plan=plan_drain(
                now=self._clock.monotonic(),
                termination_drain_s=self._config.termination_drain.total_seconds(),
                minimum_drain_s=self._config.minimum_drain.total_seconds(),
                exit_when_idle=self._config.exit_when_idle,
            )
        )
        if not self._drain_asked:
            try:
                await self.drain()
            except AdminError as error:
                log.warning("envoy was not told to drain", extra={"error": str(error)})
        interval_s = IDLE_POLL_S
        while not self._exit.done():
            before = drain.step
            drain = await self._read(drain)
            if drain.step is DrainStep.DONE:
                break
            if drain.step is not before:
                await self._refuse()
                continue
            await self._exited_within(
                min(interval_s, max(0.0, drain.plan.deadline - self._clock.monotonic()))
            )
            interval_s = min(IDLE_POLL_SLOW_S, interval_s * 1.5)

    async def _read(self, drain: Drain) -> Drain:
        try:
            stats = await self.admin.stats(CONNECTIONS_FILTER)
        except AdminError as error:
            log.debug("open connections are not known", extra={"error": str(error)})
            return after_failure(drain, now=self._clock.monotonic())
        bootstrap = self._config.bootstrap
        own = bootstrap.own_listeners if isinstance(bootstrap, BootstrapConfig) else ()
        count = active_connections(stats, own)
        log.debug("connections still open", extra={"count": count, "step": str(drain.step)})
        return after_reading(drain, count, now=self._clock.monotonic())

    async def _refuse(self) -> None:
        try:
            await self.admin.drain_listeners()
        except AdminError as error:
            log.debug("envoy was not told to stop accepting", extra={"error": str(error)})

    async def _end(self) -> None:
        self._told_to = True
        try:
            self._process.signal(signal.SIGTERM)
            if not await self._exited_within(self._config.stop_grace.total_seconds()):
                log.warning("envoy does not exit, killing it", extra={"pid": self.pid})
        finally:
            await self._process.kill()

    async def _exited_within(self, seconds: float) -> bool:
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            either: set[asyncio.Future[Any]] = {sleeping, self._exit}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        return self._exit.done()


@asynccontextmanager
async def running(config: EnvoyConfig, *, clock: Clock | None = None) -> AsyncIterator[Envoy]:
    """Run Envoy while the block runs; leaving it drains and stops Envoy, cancelled or not.

    The block is not disturbed when Envoy ends by itself: `wait_exit` tells. Raises `EnvoyNotFound`
    and `EnvoySupervisorError` when it cannot be started; a configuration Envoy refuses shows as
    `EnvoyExited` from `wait_ready`.
    """
    clock = clock or SystemClock()
    admin = AdminClient(_admin_address(config))
    with _bootstrap_file(config) as path, _socket_removed(admin.address):
        arguments = envoy_arguments(config, path, own_log_format=not sets_log_format(path))
        process = spawn([str(config.binary), *arguments])
        envoy = Envoy(config, admin, process, clock=clock)
        log.info("envoy started", extra={"pid": envoy.pid, "binary": str(config.binary)})
        try:
            async with in_background(envoy.watch(), name="envoy readiness"):
                yield envoy
        finally:
            await envoy.stop()


@contextmanager
def _bootstrap_file(config: EnvoyConfig) -> Iterator[Path]:
    """The file to start Envoy with. A rendered one is removed; a user's own is left alone."""
    if isinstance(config.bootstrap, Path):
        if not config.bootstrap.is_file():
            raise EnvoySupervisorError(f"there is no bootstrap file {config.bootstrap}")
        yield config.bootstrap
        return
    path = config.directory / "envoy-rev0.json"
    try:
        write_private(path, json.dumps(render_bootstrap(config.bootstrap), indent=1))
    except OSError as error:
        raise EnvoySupervisorError(f"cannot write {path}: {error.strerror}") from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _socket_removed(address: Address | UnixAddress) -> Iterator[None]:
    """Envoy leaves its admin socket's file behind, however it ends."""
    try:
        yield
    finally:
        if isinstance(address, UnixAddress) and address.path.is_socket():
            address.path.unlink(missing_ok=True)


def _admin_address(config: EnvoyConfig) -> Address | UnixAddress:
    if config.admin is not None:
        return config.admin
    if isinstance(config.bootstrap, BootstrapConfig):
        return config.bootstrap.admin
    return admin_address(config.bootstrap)
