"""Carries out the decisions of `_fleet`: what happens goes in, what is to be done is done."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import deque
from pathlib import Path
from typing import Any, assert_never

from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import RestartRefused
from envoy_supervisor.decisions import _events as news
from envoy_supervisor.decisions._process_decisions import advance
from envoy_supervisor.decisions._process_states import Fleet, Phase, Stage
from envoy_supervisor.handover._hot_restart_files import release_stale
from envoy_supervisor.processes._envoy_process import Child, remove_stale
from envoy_supervisor.processes._exit_reason import with_budget
from envoy_supervisor.processes._version import Version
from envoy_supervisor.supervision._processes import Processes
from envoy_supervisor.supervision._record import Record
from envoy_supervisor.supervision._rollouts import Rollouts
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
        self.fleet = Fleet(wanted=version.name)
        self.record = Record()
        self._config = config
        self._clock = clock
        self._rng = random.Random()
        self._rollouts = Rollouts(version)
        self._background = Background()
        self._processes = Processes(
            config,
            fleet=lambda: self.fleet,
            tell=self.tell,
            rollouts=self._rollouts,
            record=self.record,
            clock=clock,
            background=self._background,
        )
        self.keeper = self._processes.handover.keeper
        self._news: deque[news.Event] = deque()
        self._working = False

    @property
    def current(self) -> Child:
        """The process that serves; while none does, the one started last."""
        child = self.serving or self._processes.latest
        assert child is not None  # noqa: S101 - the first is started before anyone can ask
        return child

    @property
    def serving(self) -> Child | None:
        """The process that serves."""
        return self.child(Stage.READY)

    def child(self, stage: Stage) -> Child | None:
        """The process at that stage."""
        member = self.fleet.first(stage)
        return self._processes.get(member.number) if member else None

    @property
    def wanted(self) -> Version:
        """What runs, or is to run as soon as it can."""
        return self._rollouts[self.fleet.wanted]

    def start(self) -> None:
        """Start the first process; raises if there is no such program."""
        directory, bootstrap = self._config.directory, self._config.bootstrap
        release_stale(directory)
        remove_stale(directory, but=bootstrap if isinstance(bootstrap, Path) else None)
        self.tell(news.Tick())
        if self._processes.not_started is not None:
            raise self._processes.not_started

    async def replace(self, version: Version) -> None:
        """Run this version from now on; returns when it serves, raises `RestartRefused`."""
        if self.fleet.phase is not Phase.RUNNING:
            raise RestartRefused("envoy is being stopped")
        outcome = self._rollouts.begin(version)
        try:
            self.tell(news.Wanted(version.name))
            await outcome
        finally:
            needed = {member.version for member in self.fleet.members}
            needed |= {name for name in (self.fleet.wanted, self.fleet.good) if name}
            self._rollouts.forget(version.name, needed=needed)

    async def ended_within(self, seconds: float) -> bool:
        """Whether it all has ended for good, after at most this long."""
        exited = self.record.exited
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            either: set[asyncio.Future[Any]] = {sleeping, exited}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        return exited.done()

    async def end(self) -> None:
        """End every process: by SIGTERM and patience, then by force; by force if cancelled."""
        try:
            self.tell(news.DrainOver())
            await self.ended_within(self._config.stop_grace.total_seconds() + KILLED_S)
        finally:
            self.keeper.close()
            await self._processes.kill_all()
            await self._background.cancel()

    def tell(self, event: news.Event) -> None:
        """Have an event answered. One that comes while another is answered waits for its turn."""
        self._news.append(event)
        if self._working:
            return
        self._working = True
        try:
            while self._news:
                self._answer(self._news.popleft())
        finally:
            self._working = False
        if (settled := self.fleet.settled) is not None:
            self._rollouts.serves(settled)
        self._processes.handover.tidy()
        if self.fleet.phase is Phase.ENDED and not self.record.exited.done():
            self._finish()

    def _answer(self, event: news.Event) -> None:
        self.fleet, actions = advance(
            self.fleet,
            event,
            now=self._clock.monotonic(),
            policy=self._config.crashes,
            rng=self._rng,
        )
        if self.fleet.phase is not Phase.RUNNING:
            self.keeper.close()
        for action in actions:
            self._do(action)

    def _do(self, action: news.Action) -> None:
        match action:
            case news.Start(member):
                self._processes.start(member)
            case news.Probe(number):
                self._processes.probe(number)
            case news.Terminate(number):
                self._processes.end(number, signal.SIGTERM)
                self._later(self._config.stop_grace.total_seconds(), news.Overdue(number))
            case news.Kill(number):
                self._processes.end(number, signal.SIGKILL)
            case news.Retire(number):
                # Its child ends it after that time; if the child has ended, we do.
                shutdown_s = self._config.parent_shutdown_time.total_seconds()
                self._later(shutdown_s + RETIRE_MARGIN_S, news.RetireDue(number))
            case news.WakeAt(when):
                self._at(when, news.Tick())
            case news.Refused(version, number):
                ended = self._processes.exits.get(number)
                reason = ended.reason if ended else "envoy did not get ready in time"
                self.record.refuse(reason)
                self._rollouts.refuse(version, reason)
            case news.Crashed(_, delay_s):
                crash: dict[str, object] = {
                    "delay_s": round(delay_s, 3),
                    "crashes": len(self.fleet.crashes),
                    "kept_sockets": self.keeper.count,
                }
                log.warning("envoy is started again", extra=crash)
            case _:
                assert_never(action)

    def _later(self, seconds: float, event: news.Event) -> None:
        self._at(self._clock.monotonic() + seconds, event)

    def _at(self, when: float, event: news.Event) -> None:
        async def tell() -> None:
            await self._clock.sleep(when - self._clock.monotonic())
            self.tell(event)

        self._background.start(tell(), name=f"envoy timer {type(event).__name__}")

    def _finish(self) -> None:
        exits = self._processes.exits
        how = exits[max(exits) if self.fleet.verdict is None else self.fleet.verdict]
        if self.fleet.verdict is not None:
            how = with_budget(how, self._config.crashes, crashes=len(self.fleet.crashes))
        self.record.ended(how)
        self._rollouts.refuse_all(f"envoy has ended: {how.reason}")
