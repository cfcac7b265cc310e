"""Carries out the decisions about Envoy processes: events go in, actions are done."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import deque
from pathlib import Path
from typing import assert_never

from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import EnvoySupervisorError, RestartRefused
from envoy_supervisor._exit import Exit
from envoy_supervisor.decisions import _actions as actions
from envoy_supervisor.decisions import _events as events
from envoy_supervisor.decisions._process_decisions import decide
from envoy_supervisor.decisions._state import Phase, Stage, SupervisorState
from envoy_supervisor.handover._hot_restart_files import release_stale
from envoy_supervisor.processes._envoy_process import EnvoyProcess, remove_stale_bootstraps
from envoy_supervisor.processes._exit_reason import with_budget
from envoy_supervisor.processes._version import Version
from envoy_supervisor.supervision._lifecycle_status import LifecycleStatus
from envoy_supervisor.supervision._rollouts import Rollouts
from envoy_supervisor.supervision._running_processes import RunningProcesses
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

# A killed process is gone at once, unless the kernel holds it.
KILLED_S = 2.0
# A child ends its parent in time, unless it has ended itself.
RETIRE_MARGIN_S = 5.0


class Supervisor:
    """Owns the processes, from the first's start until all have ended for good.

    config: where files go and how long things take; does not change with restarts.
    """

    def __init__(self, config: EnvoyConfig, version: Version, *, clock: Clock) -> None:
        self.state = SupervisorState(wanted=version.name)
        self.status = LifecycleStatus()
        self._config = config
        self._clock = clock
        self._rng = random.Random()
        self._rollouts = Rollouts(version)
        self._background = Background()
        self._processes = RunningProcesses(
            config,
            state=lambda: self.state,
            handle=self.handle,
            rollouts=self._rollouts,
            status=self.status,
            clock=clock,
            background=self._background,
        )
        self.retention = self._processes.socket_sources.retention
        self._events: deque[events.Event] = deque()
        self._handling = False

    @property
    def current(self) -> EnvoyProcess:
        """The process that serves; while none does, the one started last."""
        process = self.serving or self._processes.latest
        if process is None:  # the first is started before any caller can ask
            raise EnvoySupervisorError("envoy was not started")
        return process

    @property
    def serving(self) -> EnvoyProcess | None:
        """The process that serves."""
        return self.process(Stage.READY)

    def process(self, stage: Stage) -> EnvoyProcess | None:
        """Return the process at that stage."""
        found = self.state.first(stage)
        return self._processes.get(found.number) if found else None

    @property
    def wanted(self) -> Version:
        """The version that runs, or is to run as soon as it can."""
        return self._rollouts[self.state.wanted]

    def start(self) -> None:
        """Start the first process. Raises `EnvoySupervisorError` if that cannot be."""
        directory, bootstrap = self._config.directory, self._config.bootstrap
        release_stale(directory)
        remove_stale_bootstraps(directory, but=bootstrap if isinstance(bootstrap, Path) else None)
        self.handle(events.Tick())
        if self._processes.start_error is not None:
            raise self._processes.start_error

    async def replace(self, version: Version) -> None:
        """Run this version from now on. Returns when it serves, raises `RestartRefused`."""
        if self.state.phase is not Phase.RUNNING:
            raise RestartRefused("envoy is being stopped")
        outcome = self._rollouts.begin(version)
        try:
            self.handle(events.VersionRequested(version.name))
            await outcome
        finally:
            needed = {process.version for process in self.state.processes}
            needed |= {name for name in (self.state.wanted, self.state.last_good) if name}
            self._rollouts.forget(version.name, needed=needed)

    async def ended_within(self, seconds: float) -> bool:
        """Return whether Envoy has ended for good, after at most this long."""
        exited = self.status.exited
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))

        def wake(_: asyncio.Future[Exit]) -> None:
            sleeping.cancel()

        exited.add_done_callback(wake)
        try:
            await asyncio.wait({sleeping})
        finally:
            exited.remove_done_callback(wake)
            sleeping.cancel()
        return exited.done()

    async def end(self) -> None:
        """End every process by SIGTERM; by force after `stop_grace`, or if this is cancelled."""
        try:
            self.handle(events.DrainFinished())
            await self.ended_within(self._config.stop_grace.total_seconds() + KILLED_S)
        finally:
            self.retention.close()
            await self._processes.kill_all()
            await self._background.cancel()

    def handle(self, event: events.Event) -> None:
        """Handles an event. One that comes while another is handled is queued."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                self._decide(self._events.popleft())
        finally:
            self._handling = False
        if (version := self.state.rolled_out) is not None:
            self._rollouts.succeed(version)
        self._processes.socket_sources.release_unused()
        if self.state.phase is Phase.ENDED and not self.status.exited.done():
            self._finish()

    def _decide(self, event: events.Event) -> None:
        self.state, decided = decide(
            self.state,
            event,
            now=self._clock.monotonic(),
            policy=self._config.crashes,
            rng=self._rng,
        )
        if self.state.phase is not Phase.RUNNING:
            self.retention.close()
        for action in decided:
            self._do(action)

    def _do(self, action: actions.Action) -> None:
        match action:
            case actions.Start(process):
                self._processes.start(process)
            case actions.ProbeAdmin(number):
                self._processes.probe(number)
            case actions.Terminate(number):
                self._processes.end(number, signal.SIGTERM)
                self._later(self._config.stop_grace.total_seconds(), events.ExitOverdue(number))
            case actions.Kill(number):
                self._processes.end(number, signal.SIGKILL)
            case actions.ScheduleParentShutdown(number):
                # Its child ends it after that time; if the child has ended, the supervisor does.
                shutdown_s = self._config.parent_shutdown_time.total_seconds()
                self._later(shutdown_s + RETIRE_MARGIN_S, events.ParentShutdownDue(number))
            case actions.WakeAt(when):
                self._at(when, events.Tick())
            case actions.ReportRefused(version, number):
                outcome = self._processes.exits.get(number)
                reason = outcome.reason if outcome else "envoy did not get ready in time"
                self.status.on_refusal(reason)
                self._rollouts.refuse(version, reason)
            case actions.ReportCrashed(_, delay_s):
                crash: dict[str, object] = {
                    "delay_s": round(delay_s, 3),
                    "crashes": len(self.state.crashes),
                    "retained_sockets": self.retention.count,
                }
                log.warning("envoy is started again", extra=crash)
            case _:
                assert_never(action)

    def _later(self, seconds: float, event: events.Event) -> None:
        self._at(self._clock.monotonic() + seconds, event)

    def _at(self, when: float, event: events.Event) -> None:
        async def wait() -> None:
            await self._clock.sleep(when - self._clock.monotonic())
            self.handle(event)

        self._background.start(wait(), name=f"envoy timer {type(event).__name__}")

    def _finish(self) -> None:
        exits = self._processes.exits
        how = exits[max(exits) if self.state.gave_up_on is None else self.state.gave_up_on]
        if self.state.gave_up_on is not None:
            how = with_budget(how, self._config.crashes, crashes=len(self.state.crashes))
        self.status.on_end(how)
        self._rollouts.refuse_all(f"envoy has ended: {how.reason}")
