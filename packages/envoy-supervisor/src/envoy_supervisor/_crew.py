"""Carries out the decisions of `_fleet`: starts, watches, signals and tidies up after processes."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_never

from envoy_supervisor import _fleet as fleets
from envoy_supervisor._address import UnixAddress
from envoy_supervisor._child import Child, start_child
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import EnvoyNotFound, EnvoySupervisorError, RestartRefused
from envoy_supervisor._exit import Exit, ExitCause
from envoy_supervisor._fleet import Fleet, Phase, Stage
from envoy_supervisor._hot_restart import (
    id_file,
    read_base_id,
    release,
    release_stale,
    socket_path,
)
from envoy_supervisor._stand_in import StandIn, stand_in
from envoy_supervisor._version import Version
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

# A killed process is gone at once, unless the kernel holds it.
KILLED_S = 2.0
# A child ends its parent in time, unless it has ended itself.
RETIRE_MARGIN_S = 5.0
EXITS_KEPT = 16
# Starting the same again cannot help.
FINAL = frozenset({ExitCause.BAD_CONFIGURATION, ExitCause.MISSING_LIBRARY, ExitCause.STOPPED})


@dataclass(slots=True)
class Counts:
    """What has happened since the start."""

    restarts: int = 0
    refused: int = 0
    crashes: int = 0
    last_crash: str | None = None
    last_refusal: str | None = None


class Crew:
    """The processes there are. `exited` is done when they have ended for good.

    config: where files go and how long things take; does not change with restarts.
    """

    def __init__(self, config: EnvoyConfig, version: Version, *, clock: Clock) -> None:
        self.fleet = Fleet(wanted=version.name)
        self.counts = Counts()
        self.ready = asyncio.Event()
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._config = config
        self._clock = clock
        self._rng = random.Random()
        self._versions = {version.name: version}
        self._children: dict[int, Child] = {}
        self._latest: Child | None = None
        self._exits: dict[int, Exit] = {}
        self._news: deque[fleets.Event] = deque()
        self._working = False
        self._stand_ins: dict[int, StandIn] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._outcomes: dict[str, asyncio.Future[None]] = {}
        self._not_started: EnvoySupervisorError | None = None

    @property
    def current(self) -> Child:
        """The process that serves; while none does, the one started last."""
        ready = self.fleet.first(Stage.READY)
        child = self._children.get(ready.number) if ready else self._latest
        assert child is not None  # noqa: S101 - the first is started before anyone can ask
        return child

    def child(self, number: int) -> Child | None:
        """The process of a member, if it is alive."""
        return self._children.get(number)

    def start(self) -> None:
        """Start the first process; raises if there is no such program."""
        release_stale(self._config.directory)
        self.tell(fleets.Tick())
        if self._not_started is not None:
            raise self._not_started

    async def replace(self, version: Version) -> None:
        """Run this version from now on; returns when it serves, raises `RestartRefused`."""
        if self.fleet.phase is not Phase.RUNNING:
            raise RestartRefused("envoy is being stopped")
        self._versions[version.name] = version
        outcome = self._outcomes[version.name] = asyncio.get_running_loop().create_future()
        try:
            self.tell(fleets.Wanted(version.name))
            await outcome
        finally:
            del self._outcomes[version.name]
            needed = {self.fleet.wanted, self.fleet.good}
            needed |= {member.version for member in self.fleet.members}
            self._versions = {n: v for n, v in self._versions.items() if n in needed}

    def refuse(self, reason: str) -> None:
        """Count and log a version that does not work."""
        self.counts.refused += 1
        self.counts.last_refusal = reason
        log.error("the new envoy was refused, the old one serves on", extra={"reason": reason})

    async def ended_within(self, seconds: float) -> bool:
        """Whether it all has ended for good, after at most this long."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            either: set[asyncio.Future[Any]] = {sleeping, self.exited}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        return self.exited.done()

    async def end(self) -> None:
        """End every process: by SIGTERM and patience, then by force; by force if cancelled."""
        try:
            self.tell(fleets.DrainOver())
            await self.ended_within(self._config.stop_grace.total_seconds() + KILLED_S)
        finally:
            for child in list(self._children.values()):
                await child.process.kill()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def tell(self, event: fleets.Event) -> None:
        """Have an event answered. One that comes while another is answered waits for its turn."""
        self._news.append(event)
        if self._working:
            return
        self._working = True
        try:
            while self._news:
                self.fleet, actions = fleets.advance(
                    self.fleet,
                    self._news.popleft(),
                    now=self._clock.monotonic(),
                    policy=self._config.crashes,
                    rng=self._rng,
                )
                for action in actions:
                    self._do(action)
        finally:
            self._working = False
        if self.fleet.phase is Phase.ENDED and not self.exited.done():
            self._finish()

    def _do(self, action: fleets.Action) -> None:
        match action:
            case fleets.Start(member):
                self._start(member)
            case fleets.Terminate(number):
                self._signal(number, signal.SIGTERM)
                self._later(self._config.stop_grace.total_seconds(), fleets.Overdue(number))
            case fleets.Kill(number):
                log.warning("envoy does not exit, killing it", extra=self._facts(number))
                self._signal(number, signal.SIGKILL)
            case fleets.Retire(number):
                # Its child ends it after that time; if the child has ended, we do.
                shutdown_s = self._config.parent_shutdown_time.total_seconds()
                self._later(shutdown_s + RETIRE_MARGIN_S, fleets.RetireDue(number))
            case fleets.WakeAt(when):
                self._later(when - self._clock.monotonic(), fleets.Tick())
            case fleets.Refused(version, number):
                ended = self._exits.get(number)
                reason = ended.reason if ended else "envoy did not get ready in time"
                self.refuse(reason)
                self._decide(version, RestartRefused(reason))
            case fleets.Crashed(number, delay_s):
                facts = {"delay_s": round(delay_s, 3), "crashes": len(self.fleet.crashes)}
                log.warning("envoy is started again", extra=facts)
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
            log.error("envoy was not started", extra={"reason": str(error)})
            self._not_started = error
            self._exits[member.number] = Exit(
                code=None, signal=None, cause=ExitCause.FAILED, reason=str(error)
            )
            self.tell(fleets.Exited(member.number, final=isinstance(error, EnvoyNotFound)))
            return
        self._children[member.number] = self._latest = child
        watch = self._background(self._watch(child), name=f"envoy {child.process.pid} readiness")
        child.process.exited.add_done_callback(lambda _: watch.cancel())
        child.process.exited.add_done_callback(lambda _: self._on_exit(child))

    async def _watch(self, child: Child) -> None:
        number = child.member.number
        # The first start may have to wait for a control plane; a restart has a parent to fall
        # back on.
        limit_s = self._config.restart_timeout.total_seconds() if child.member.epoch > 0 else None
        try:
            async with asyncio.timeout(limit_s):
                await child.until_ready()
        except TimeoutError:
            log.warning("envoy does not get ready", extra=self._facts(number))
            self.tell(fleets.TookTooLong(number))
            return
        child.ready_at = self._clock.monotonic()
        took_s = round(child.ready_at - child.started, 3)
        log.info("envoy is ready", extra={**self._facts(number), "after_s": took_s})
        self.tell(fleets.BecameReady(number))
        self.ready.set()
        self.counts.restarts += child.member.epoch > 0
        self._decide(child.member.version, None)

    def _on_exit(self, child: Child) -> None:
        number = child.member.number
        member = self.fleet.member(number) or child.member
        # A retiring process is told to exit by its child.
        retired = member.stage is Stage.RETIRING and child.process.exited.result() >= 0
        child.told_to = child.told_to or retired
        outcome = self._exits[number] = child.ended()
        self._exits.pop(number - EXITS_KEPT, None)
        facts = {**self._facts(number), "reason": outcome.reason, "cause": str(outcome.cause)}
        if child.told_to or self.fleet.phase is not Phase.RUNNING:
            log.info("envoy stopped", extra=facts)
        else:
            self.counts.crashes += 1
            self.counts.last_crash = outcome.reason
            log.error("envoy failed", extra=facts)
        del self._children[number]
        if member.stage is Stage.RETIRING:
            self._stand_in_for(member)
        if member.stage is Stage.READY and self.fleet.phase is Phase.RUNNING:
            self.ready.clear()
        self.tell(fleets.Exited(number, final=outcome.cause in FINAL))
        self._tidy(child)

    def _stand_in_for(self, member: fleets.Member) -> None:
        """Answer for a retired process as long as its successor may have questions."""
        file = id_file(self._config.directory, member.family)
        base_id, prefix = read_base_id(file), socket_path(file)
        if base_id is None or prefix is None:
            return
        substitute = stand_in(prefix, base_id, member.epoch)
        if substitute is None:
            return
        try:
            substitute.open()
        except OSError as error:
            log.warning("cannot answer for the old envoy", extra={"reason": str(error)})
            return
        if (before := self._stand_ins.pop(member.family, None)) is not None:
            before.close()
        self._stand_ins[member.family] = substitute

    def _tidy(self, child: Child) -> None:
        """Remove what outlives processes, once no process is left that needs it."""
        family = child.member.family
        if not any(member.family == family for member in self.fleet.members):
            if (substitute := self._stand_ins.pop(family, None)) is not None:
                substitute.close()
            release(id_file(self._config.directory, family))
        address = child.version.admin
        if isinstance(address, UnixAddress) and not any(
            other.version.admin == address for other in self._children.values()
        ):
            address.path.unlink(missing_ok=True)

    def _finish(self) -> None:
        number = max(self._exits) if self.fleet.verdict is None else self.fleet.verdict
        self.exited.set_result(self._exits[number])
        for version in self._outcomes:
            self._decide(version, RestartRefused(f"envoy has ended: {self._exits[number].reason}"))

    def _decide(self, version: str, refusal: RestartRefused | None) -> None:
        """Answer whoever waits for that version."""
        outcome = self._outcomes.get(version)
        if outcome is None or outcome.done():
            return
        if refusal is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(refusal)

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
            self.tell(event)

        self._background(tell(), name=f"envoy timer {type(event).__name__}")

    def _background(
        self, work: Coroutine[object, object, None], *, name: str
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("supervising envoy failed", exc_info=error, extra={"task": task.get_name()})
