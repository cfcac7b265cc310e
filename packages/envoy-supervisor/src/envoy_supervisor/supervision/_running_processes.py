"""The Envoy processes that live, each followed from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from envoy_supervisor._address import UnixAddress
from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import EnvoyNotFound, EnvoySupervisorError
from envoy_supervisor._exit import Exit, ExitCause
from envoy_supervisor._files import remove
from envoy_supervisor.decisions import _events as events
from envoy_supervisor.decisions._state import Phase, ProcessState, Stage, SupervisorState
from envoy_supervisor.processes._envoy_process import EnvoyProcess, start_envoy
from envoy_supervisor.supervision._lifecycle_status import LifecycleStatus
from envoy_supervisor.supervision._rollouts import Rollouts
from envoy_supervisor.supervision._socket_sources import SocketSources
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

RECENT_EXITS = 16
DOES_NOT_EXIT = "envoy does not exit, killing it"
UNWANTED = "this envoy is not to serve any more, killing it"


class RunningProcesses:
    """One process for each of the state's, but for those whose start is deferred.

    state: returns it as it is now. handle: is called with each event.
    """

    def __init__(
        self,
        config: EnvoyConfig,
        *,
        state: Callable[[], SupervisorState],
        handle: Callable[[events.Event], None],
        rollouts: Rollouts,
        status: LifecycleStatus,
        clock: Clock,
        background: Background,
    ) -> None:
        self.latest: EnvoyProcess | None = None
        self.exits: dict[int, Exit] = {}
        self.start_error: EnvoySupervisorError | None = None
        self.socket_sources = SocketSources(
            config, state=state, process=self.get, clock=clock, background=background
        )
        self._config = config
        self._state = state
        self._handle = handle
        self._rollouts = rollouts
        self._status = status
        self._clock = clock
        self._background = background
        self._alive: dict[int, EnvoyProcess] = {}
        self._deferred: dict[int, asyncio.Task[None]] = {}

    def get(self, number: int) -> EnvoyProcess | None:
        """Return the process of that number, if it is alive."""
        return self._alive.get(number)

    def start(self, starting: ProcessState) -> None:
        """Start a process; a little later, if Envoy owes the supervisor an answer."""
        self.socket_sources.prepare(starting, same_workers=self._same_workers(starting))
        if not self.socket_sources.must_wait(starting):
            self._start(starting)
            return
        log.debug("envoy is started when the one before has answered")
        work = self._start_when_answered(starting)
        task = self._background.start(work, name="envoy deferred start")
        self._deferred[starting.number] = task

    def end(self, number: int, by: signal.Signals) -> None:
        """Ask a process to end, or ends it."""
        if process := self._alive.get(number):
            if by is signal.SIGKILL:
                message = DOES_NOT_EXIT if process.asked_to_exit else UNWANTED
                log.warning(message, extra=self._facts(number))
            process.asked_to_exit = True
            process.signal(by)
        elif (task := self._deferred.pop(number, None)) is not None:
            task.cancel()
            self._report_not_started(number, "envoy was not started any more")

    def probe(self, number: int) -> None:
        """Ask a process whether it still answers at its admin interface."""
        if process := self._alive.get(number):
            self._background.start(self._probe(process), name=f"envoy {process.pid} probe")

    async def kill_all(self) -> None:
        """End all processes, and waits until they are gone."""
        remaining = list(self._alive.values())
        for process in remaining:
            process.signal(signal.SIGKILL)
        for process in remaining:
            await process.kill()

    def _facts(self, number: int) -> dict[str, object]:
        """Return the fields that log records have of a process."""
        process = self._alive.get(number)
        return {"pid": process.pid, "epoch": process.started_as.epoch} if process else {}

    def _same_workers(self, starting: ProcessState) -> bool:
        parent = self._state().first(Stage.READY)
        if parent is None:
            return False
        old, new = (self._rollouts[each.version].config for each in (parent, starting))
        return (old.concurrency, old.extra_args) == (new.concurrency, new.extra_args)

    async def _start_when_answered(self, starting: ProcessState) -> None:
        try:
            async with asyncio.timeout(self._config.restart_timeout.total_seconds()):
                await self.socket_sources.wait_fetched()
        except TimeoutError:
            del self._deferred[starting.number]
            self._report_not_started(starting.number, "the envoy that serves does not answer")
        else:
            del self._deferred[starting.number]
            self._start(starting)

    def _start(self, starting: ProcessState) -> None:
        version = self._rollouts[starting.version]
        try:
            process = start_envoy(
                starting, version, directory=self._config.directory, clock=self._clock
            )
        except EnvoySupervisorError as error:
            log.error("envoy was not started", extra={"reason": str(error)})
            self.start_error = error
            final = isinstance(error, EnvoyNotFound)
            self._report_not_started(starting.number, str(error), final=final)
            return
        self._alive[starting.number] = self.latest = process
        self._status.on_start()
        watch = self._background.start(
            self._watch_readiness(process), name=f"envoy {process.pid} readiness"
        )
        process.exited.add_done_callback(lambda _: watch.cancel())
        process.exited.add_done_callback(lambda _: self._on_exit(process))

    def _report_not_started(self, number: int, reason: str, *, final: bool = False) -> None:
        self.exits[number] = Exit(code=None, signal=None, cause=ExitCause.FAILED, reason=reason)
        self._handle(events.Exited(number, final=final))

    async def _probe(self, process: EnvoyProcess) -> None:
        if await process.probe():
            self._handle(events.AdminAnswered(process.started_as.number))

    async def _watch_readiness(self, process: EnvoyProcess) -> None:
        number, epoch = process.started_as.number, process.started_as.epoch
        # The first of a series may have to wait for a control plane. A later one has a parent to
        # fall back on; or, if its parent has died, a new series.
        limit_s = self._config.restart_timeout.total_seconds() if epoch > 0 else None
        try:
            async with asyncio.timeout(limit_s):
                await process.wait_ready()
        except TimeoutError:
            log.warning("envoy does not get ready", extra=self._facts(number))
            self._handle(events.ReadyTimedOut(number))
            return
        self._handle(events.BecameReady(number))
        state = self._state().process(number)
        if state is None or state.stage is not Stage.READY:
            return  # it became ready too late: its end is under way
        process.ready_at = self._clock.monotonic()
        took_s = round(process.ready_at - process.started_at, 3)
        log.info("envoy is ready", extra={**self._facts(number), "after_s": took_s})
        self.socket_sources.ready(process)
        self._status.on_ready(restarted=epoch > 0 and not state.parent_died)

    def _on_exit(self, process: EnvoyProcess) -> None:
        number = process.started_as.number
        supervisor = self._state()
        state = supervisor.process(number) or process.started_as
        running = supervisor.phase is Phase.RUNNING
        # A retiring process is asked to exit by its child.
        retired = state.stage is Stage.RETIRING and process.exited.result() >= 0
        process.asked_to_exit = process.asked_to_exit or retired
        outcome = self.exits[number] = process.finish()
        self.exits.pop(number - RECENT_EXITS, None)
        facts = {**self._facts(number), "reason": outcome.reason, "cause": str(outcome.cause)}
        if process.asked_to_exit or not running:
            log.info("envoy stopped", extra=facts)
        else:
            self._status.on_crash(outcome.reason)
            log.error("envoy failed", extra=facts)
        del self._alive[number]
        self._status.on_exit(served=state.stage is Stage.READY and running)
        retained = self.socket_sources.ended(state, process, outcome)
        self._handle(events.Exited(number, final=outcome.final, sockets_retained=retained))
        address = process.version.admin
        if isinstance(address, UnixAddress) and not any(
            other.version.admin == address for other in self._alive.values()
        ):
            remove(address.path)
