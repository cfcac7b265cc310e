"""Runs Envoy for as long as a block runs: the shell around the decisions of `_fleet`."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, assert_never

from envoy_supervisor import _fleet as fleets
from envoy_supervisor._address import UnixAddress
from envoy_supervisor._admin import AdminClient
from envoy_supervisor._check import hot_restart_version, objection
from envoy_supervisor._child import Child, start_child
from envoy_supervisor._config import DrainDirection, EnvoyConfig, EnvoyState
from envoy_supervisor._errors import (
    AdminError,
    EnvoyExited,
    EnvoyNotFound,
    EnvoyNotReady,
    EnvoySupervisorError,
    RestartRefused,
)
from envoy_supervisor._exit import Exit, ExitCause
from envoy_supervisor._fleet import Fleet, Phase, Stage
from envoy_supervisor._hot_restart import id_file, release, release_stale
from envoy_supervisor._version import Version, read_version
from envoy_supervisor._waiting import until_idle
from mesh_lifecycle import Clock, SystemClock

log = logging.getLogger(__name__)

# A killed process is gone at once, unless the kernel holds it.
KILLED_S = 2.0
# Starting the same again cannot help.
FINAL = frozenset({ExitCause.BAD_CONFIGURATION, ExitCause.MISSING_LIBRARY, ExitCause.STOPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyStatus:
    """One moment of a supervised Envoy, for status pages and metrics.

    epoch: how many hot restarts led to the serving process, since the last crash.
    restarts: hot restarts that succeeded. refused: ones that did not. crashes: ends nobody asked
        for. retiring: old processes that still finish requests.
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
    last_crash: str | None
    last_refusal: str | None


class Envoy:
    """A supervised Envoy. Made by `running`."""

    def __init__(self, version: Version, *, clock: Clock) -> None:
        self._config = version.config
        self._clock = clock
        self._rng = random.Random()
        self._fleet = Fleet(wanted=version.name)
        self._versions = {version.name: version}
        self._children: dict[int, Child] = {}
        self._latest: Child | None = None
        self._exits: dict[int, Exit] = {}
        self._news: deque[fleets.Event] = deque()
        self._timers: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._restarting = asyncio.Lock()
        self._drain_asked = False
        self._not_started: EnvoySupervisorError | None = None
        self._restarts = self._refused = self._crashes = 0
        self._last_crash: str | None = None
        self._last_refusal: str | None = None

    # --- for everyone

    @property
    def state(self) -> EnvoyState:
        if self._exit.done():
            return EnvoyState.EXITED
        if self._drain_asked or self._fleet.phase is not Phase.RUNNING:
            return EnvoyState.DRAINING
        return EnvoyState.READY if self._fleet.first(Stage.READY) else EnvoyState.STARTING

    @property
    def pid(self) -> int:
        """The process that serves; while none does, the one started last."""
        return self._current.process.pid

    @property
    def admin(self) -> AdminClient:
        """The admin interface of that process. It moves when a restart changes its address."""
        return self._current.admin

    @property
    def status(self) -> EnvoyStatus:
        """What can be said of it now, as one snapshot."""
        member = self._fleet.first(Stage.READY) or self._fleet.first(Stage.STARTING)
        child = self._children.get(member.number) if member else None
        return EnvoyStatus(
            state=self.state,
            pid=child.process.pid if child else None,
            epoch=member.epoch if member else 0,
            version=member.version if member else self._fleet.wanted,
            restarts=self._restarts,
            refused=self._refused,
            crashes=self._crashes,
            retiring=sum(m.stage is Stage.RETIRING for m in self._fleet.members),
            last_crash=self._last_crash,
            last_refusal=self._last_refusal,
        )

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until Envoy is live and serves.

        Raises `EnvoyExited` if it ends for good first, `EnvoyNotReady` if it takes too long.
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
        """Wait until Envoy has ended for good: stopped, or given up after too many crashes."""
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
        log.info("envoy is draining", extra={"pid": self.pid})

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
            version = read_version(config or self._config)
            if version.name == self._fleet.wanted:
                return False
            await self._check(version)
            if self._fleet.phase is not Phase.RUNNING:
                raise RestartRefused("envoy is being stopped")
            self._versions[version.name] = version
            waiting = self._waiting[version.name] = asyncio.get_running_loop().create_future()
            try:
                self._tell(fleets.Wanted(version.name))
                await waiting
            finally:
                del self._waiting[version.name]
            self._config = version.config
            self._versions = {n: v for n, v in self._versions.items() if n == version.name}
            return True

    # --- for `running`

    def start(self) -> None:
        """Start the first process; raises if there is no such program."""
        release_stale(self._config.directory)
        self._tell(fleets.Tick())
        if self._not_started is not None:
            raise self._not_started

    async def stop(self) -> None:
        """Drain, wait, end. Cancelling it skips what is left of the waiting."""
        try:
            await self._drain_and_wait()
        finally:
            try:
                self._tell(fleets.DrainOver())
                limit_s = self._config.stop_grace.total_seconds() + KILLED_S
                await self._ended_within(limit_s)
            finally:
                await self._kill_all()

    async def _drain_and_wait(self) -> None:
        pause_s = self._config.pre_drain_pause.total_seconds()
        # A proxy that never became ready has no traffic to wait for.
        if not self._ready.is_set() or await self._ended_within(pause_s):
            return
        self._tell(fleets.StopAsked())
        if self._exit.done() or self._config.termination_drain.total_seconds() <= 0:
            return
        if not self._drain_asked:
            try:
                await self.drain()
            except AdminError as error:
                log.warning("envoy was not told to drain", extra={"error": str(error)})
        await until_idle(
            self._config,
            self.admin,
            self._current.version.own_listeners,
            clock=self._clock,
            ended_within=self._ended_within,
            others_serve=self._old_connections_unknown,
        )

    def _old_connections_unknown(self) -> bool:
        """Whether an old process may have connections that the new one does not report yet.

        The old one has no admin interface any more; the new one adds the old one's numbers to its
        own each time it brings its statistics up to date. They only go down: the old one accepts
        nothing, so a late zero is a true one.
        """
        if self._fleet.first(Stage.RETIRING) is None:
            return False
        current = self._current
        reported_at = current.ready_at + current.version.stats_flush_s + 1.0
        return self._clock.monotonic() < reported_at

    async def _kill_all(self) -> None:
        for child in list(self._children.values()):
            await child.process.kill()
        for timer in self._timers:
            timer.cancel()
        if self._timers:
            await asyncio.wait(self._timers)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(RestartRefused("envoy is being stopped"))

    async def _ended_within(self, seconds: float) -> bool:
        """Whether it all has ended for good, after at most this long."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            either: set[asyncio.Future[Any]] = {sleeping, self._exit}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        return self._exit.done()

    async def _check(self, version: Version) -> None:
        if not (version.config.hot_restart and self._config.hot_restart):
            raise RestartRefused("hot restart is switched off")
        directory = self._config.directory
        if version.config.binary != self._config.binary:
            new = await hot_restart_version(version.config.binary)
            old = await hot_restart_version(self._config.binary)
            if new != old:
                raise RestartRefused(
                    f"{version.config.binary} cannot take over from {self._config.binary}: their "
                    f"hot restart versions differ ({new} and {old})"
                )
        if (reason := await objection(version, directory)) is not None:
            self._refuse(reason)
            raise RestartRefused(reason)

    # --- the decisions, and what they lead to

    @property
    def _current(self) -> Child:
        ready = self._fleet.first(Stage.READY)
        child = self._children.get(ready.number) if ready else self._latest
        assert child is not None  # noqa: S101 - the first is started before anyone sees this object
        return child

    def _tell(self, event: fleets.Event) -> None:
        self._news.append(event)
        if len(self._news) > 1:
            return  # already being worked off, further up the stack
        while self._news:
            self._fleet, actions = fleets.advance(
                self._fleet,
                self._news[0],
                now=self._clock.monotonic(),
                policy=self._config.crashes,
                rng=self._rng,
            )
            for action in actions:
                self._do(action)
            self._news.popleft()
        if self._fleet.phase is Phase.ENDED and not self._exit.done():
            self._end()

    def _do(self, action: fleets.Action) -> None:
        match action:
            case fleets.Start(member):
                self._start(member)
            case fleets.Terminate(number):
                self._terminate(number)
            case fleets.Kill(number):
                log.warning("envoy does not exit, killing it", extra=self._facts(number))
                self._signal(number, signal.SIGKILL)
            case fleets.Retire(number):
                # Its child ends it after that time; if the child has ended, we do.
                shutdown_s = self._config.parent_shutdown_time.total_seconds()
                grace_s = self._config.stop_grace.total_seconds()
                self._later(shutdown_s + grace_s, fleets.RetireDue(number))
            case fleets.WakeAt(when):
                self._later(when - self._clock.monotonic(), fleets.Tick())
            case fleets.Refused(version, number):
                self._refused_while_starting(version, number)
            case fleets.Crashed(number, delay_s):
                facts = {"delay_s": round(delay_s, 3), "crashes": len(self._fleet.crashes)}
                log.warning("envoy is started again", extra={**facts, **self._facts(number)})
            case _:
                assert_never(action)

    def _start(self, member: fleets.Member) -> None:
        try:
            child = start_child(
                member,
                self._versions[member.version],
                directory=self._config.directory,
                clock=self._clock,
            )
        except EnvoySupervisorError as error:
            self._not_started = error
            self._exits[member.number] = Exit(
                code=None, signal=None, cause=ExitCause.FAILED, reason=str(error)
            )
            self._tell(fleets.Exited(member.number, final=isinstance(error, EnvoyNotFound)))
            return
        self._children[member.number] = self._latest = child
        child.process.exited.add_done_callback(lambda _: self._on_exit(child))
        self._background(self._watch(child), name=f"envoy {child.process.pid} readiness")

    async def _watch(self, child: Child) -> None:
        # The first start may have to wait for a control plane; a restart has a parent to fall
        # back on.
        limit_s = self._config.restart_timeout.total_seconds()
        try:
            async with asyncio.timeout(limit_s if child.member.epoch > 0 else None):
                await child.until_ready()
        except TimeoutError:
            log.warning("envoy does not get ready", extra=self._facts(child.member.number))
            self._tell(fleets.TookTooLong(child.member.number))
            return
        if child.process.exited.done():
            return
        child.ready_at = self._clock.monotonic()
        took_s = round(child.ready_at - child.started, 3)
        log.info("envoy is ready", extra={**self._facts(child.member.number), "after_s": took_s})
        self._tell(fleets.BecameReady(child.member.number))
        self._ready.set()
        if child.member.epoch > 0:
            self._restarts += 1
        waiting = self._waiting.get(child.member.version)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _on_exit(self, child: Child) -> None:
        number = child.member.number
        member = self._fleet.member(number) or child.member
        # A retiring process is ended by its child.
        child.told_to = child.told_to or member.stage is Stage.RETIRING
        outcome = self._exits[number] = child.ended()
        expected = child.told_to or self._fleet.phase is not Phase.RUNNING
        facts = {**self._facts(number), "reason": outcome.reason, "cause": str(outcome.cause)}
        if expected:
            log.info("envoy stopped", extra=facts)
        else:
            self._crashes += 1
            self._last_crash = outcome.reason
            log.error("envoy failed", extra=facts)
        del self._children[number]
        if member.stage is Stage.READY and self._fleet.phase is Phase.RUNNING:
            self._ready.clear()
        self._tell(fleets.Exited(number, final=outcome.cause in FINAL))
        self._tidy(child)

    def _tidy(self, child: Child) -> None:
        """Remove what outlives processes, once no process is left that needs it."""
        family = child.member.family
        if not any(member.family == family for member in self._fleet.members):
            release(id_file(self._config.directory, family))
        address = child.version.admin
        if isinstance(address, UnixAddress) and not any(
            other.version.admin == address for other in self._children.values()
        ):
            address.path.unlink(missing_ok=True)

    def _refused_while_starting(self, version: str, number: int) -> None:
        ended = self._exits.get(number)
        reason = ended.reason if ended else "envoy did not get ready in time"
        self._refuse(reason)
        waiting = self._waiting.get(version)
        if waiting is not None and not waiting.done():
            waiting.set_exception(RestartRefused(reason))

    def _refuse(self, reason: str) -> None:
        self._refused += 1
        self._last_refusal = reason
        log.error("the new envoy was refused, the old one serves on", extra={"reason": reason})

    def _end(self) -> None:
        verdict = self._fleet.verdict
        last = max(self._exits)
        self._exit.set_result(self._exits[last if verdict is None else verdict])

    # --- small things

    def _terminate(self, number: int) -> None:
        if child := self._children.get(number):
            child.told_to = True
        self._signal(number, signal.SIGTERM)
        self._later(self._config.stop_grace.total_seconds(), fleets.Overdue(number))

    def _signal(self, number: int, which: signal.Signals) -> None:
        if child := self._children.get(number):
            child.told_to = True
            child.process.signal(which)

    def _facts(self, number: int) -> dict[str, object]:
        child = self._children.get(number)
        return {"pid": child.process.pid, "epoch": child.member.epoch} if child else {}

    def _later(self, seconds: float, event: fleets.Event) -> None:
        async def tell() -> None:
            await self._clock.sleep(seconds)
            self._tell(event)

        self._background(tell(), name=f"envoy timer {type(event).__name__}")

    def _background(self, work: Any, *, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        self._timers.add(task)
        task.add_done_callback(self._timers.discard)


@asynccontextmanager
async def running(config: EnvoyConfig, *, clock: Clock | None = None) -> AsyncIterator[Envoy]:
    """Run Envoy while the block runs; leaving it drains and stops Envoy, cancelled or not.

    The block is not disturbed when Envoy ends for good: `wait_exit` tells. Raises `EnvoyNotFound`
    and `EnvoySupervisorError` when it cannot be started; a configuration Envoy refuses shows as
    `EnvoyExited` from `wait_ready`.
    """
    envoy = Envoy(read_version(config), clock=clock or SystemClock())
    envoy.start()
    try:
        yield envoy
    finally:
        await envoy.stop()
