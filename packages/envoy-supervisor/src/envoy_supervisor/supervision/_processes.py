"""The processes that live, each from its start to its end; what happens to them is told."""

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
from envoy_supervisor.decisions import _events as news
from envoy_supervisor.decisions._process_states import Fleet, Member, Phase, Stage
from envoy_supervisor.processes._envoy_process import Child, start_child
from envoy_supervisor.supervision._handover import Handover, serving_envoy
from envoy_supervisor.supervision._record import Record
from envoy_supervisor.supervision._rollouts import Rollouts
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

EXITS_KEPT = 16
DOES_NOT_EXIT = "envoy does not exit, killing it"
UNWANTED = "this envoy is not to serve any more, killing it"


class Processes:
    """One for each member of the fleet, but for those that wait to be started.

    fleet: gives it as it is now. tell: called with what happens.
    """

    def __init__(
        self,
        config: EnvoyConfig,
        *,
        fleet: Callable[[], Fleet],
        tell: Callable[[news.Event], None],
        rollouts: Rollouts,
        record: Record,
        clock: Clock,
        background: Background,
    ) -> None:
        self.latest: Child | None = None
        self.exits: dict[int, Exit] = {}
        self.not_started: EnvoySupervisorError | None = None
        self.handover = Handover(config, fleet=fleet, clock=clock, background=background)
        self._config = config
        self._fleet = fleet
        self._tell = tell
        self._rollouts = rollouts
        self._record = record
        self._clock = clock
        self._background = background
        self._alive: dict[int, Child] = {}
        self._deferred: dict[int, asyncio.Task[None]] = {}

    def get(self, number: int) -> Child | None:
        """The process of a member, if it is alive."""
        return self._alive.get(number)

    def start(self, member: Member) -> None:
        """Start a process; a little later, if the one before it must be heard out first."""
        same_workers = self._same_workers(member)
        self.handover.prepare(member, same_workers=same_workers, heir=lambda: self.latest)
        if not self.handover.must_wait(member):
            self._start(member)
            return
        log.debug("envoy is started when the one before has answered")
        work = self._start_when_quiet(member)
        task = self._background.start(work, name="envoy start when quiet")
        self._deferred[member.number] = task

    def end(self, number: int, by: signal.Signals) -> None:
        """Ask a process to end, or end it."""
        if child := self._alive.get(number):
            if by is signal.SIGKILL:
                log.warning(DOES_NOT_EXIT if child.told_to else UNWANTED, extra=self.facts(number))
            child.told_to = True
            child.process.signal(by)
        elif (task := self._deferred.pop(number, None)) is not None:
            task.cancel()
            self._not_begun(number, "envoy was not started any more")

    def probe(self, number: int) -> None:
        """See whether a process still answers at its admin interface."""
        if child := self._alive.get(number):
            self._background.start(self._probe(child), name=f"envoy {child.process.pid} probe")

    async def kill_all(self) -> None:
        """End those that are left, and wait until they are gone."""
        left = list(self._alive.values())
        for child in left:
            child.process.signal(signal.SIGKILL)
        for child in left:
            await child.process.kill()

    def facts(self, number: int) -> dict[str, object]:
        """What log records say of a process."""
        child = self._alive.get(number)
        return {"pid": child.process.pid, "epoch": child.member.epoch} if child else {}

    def _same_workers(self, member: Member) -> bool:
        before = self._fleet().first(Stage.READY)
        if before is None:
            return False
        old, new = (self._rollouts[m.version].config for m in (before, member))
        return (old.concurrency, old.extra_args) == (new.concurrency, new.extra_args)

    async def _start_when_quiet(self, member: Member) -> None:
        try:
            async with asyncio.timeout(self._config.restart_timeout.total_seconds()):
                await self.handover.quiet()
        except TimeoutError:
            del self._deferred[member.number]
            self._not_begun(member.number, "the envoy that serves does not answer")
        else:
            del self._deferred[member.number]
            self._start(member)

    def _start(self, member: Member) -> None:
        version = self._rollouts[member.version]
        try:
            child = start_child(
                member, version, directory=self._config.directory, clock=self._clock
            )
        except EnvoySupervisorError as error:
            log.error("envoy was not started", extra={"reason": str(error)})
            self.not_started = error
            self._not_begun(member.number, str(error), final=isinstance(error, EnvoyNotFound))
            return
        self._alive[member.number] = self.latest = child
        self._record.started()
        watch = self._background.start(
            self._watch(child), name=f"envoy {child.process.pid} readiness"
        )
        child.process.exited.add_done_callback(lambda _: watch.cancel())
        child.process.exited.add_done_callback(lambda _: self._on_exit(child))

    def _not_begun(self, number: int, reason: str, *, final: bool = False) -> None:
        self.exits[number] = Exit(code=None, signal=None, cause=ExitCause.FAILED, reason=reason)
        self._tell(news.Exited(number, final=final))

    async def _probe(self, child: Child) -> None:
        if await child.serves():
            self._tell(news.Answers(child.member.number))

    async def _watch(self, child: Child) -> None:
        number = child.member.number
        # The first start may have to wait for a control plane; a restart has a parent to fall
        # back on, and an heir a new family.
        limit_s = self._config.restart_timeout.total_seconds() if child.member.epoch > 0 else None
        try:
            async with asyncio.timeout(limit_s):
                await child.until_ready()
        except TimeoutError:
            log.warning("envoy does not get ready", extra=self.facts(number))
            self._tell(news.TookTooLong(number))
            return
        self._tell(news.BecameReady(number))
        member = self._fleet().member(number)
        if member is None or member.stage is not Stage.READY:
            return  # it came too late: its end is under way
        child.ready_at = self._clock.monotonic()
        took_s = round(child.ready_at - child.started, 3)
        log.info("envoy is ready", extra={**self.facts(number), "after_s": took_s})
        self.handover.keeper.take(serving_envoy(child))
        self._record.serves(restarted=member.epoch > 0 and not member.heir)

    def _on_exit(self, child: Child) -> None:
        number = child.member.number
        fleet = self._fleet()
        member = fleet.member(number) or child.member
        running = fleet.phase is Phase.RUNNING
        # A retiring process is told to exit by its child.
        retired = member.stage is Stage.RETIRING and child.process.exited.result() >= 0
        child.told_to = child.told_to or retired
        outcome = self.exits[number] = child.ended()
        self.exits.pop(number - EXITS_KEPT, None)
        facts = {**self.facts(number), "reason": outcome.reason, "cause": str(outcome.cause)}
        if child.told_to or not running:
            log.info("envoy stopped", extra=facts)
        else:
            self._record.crash(outcome.reason)
            log.error("envoy failed", extra=facts)
        del self._alive[number]
        self._record.process_ended(served=member.stage is Stage.READY and running)
        kept = self.handover.ended(member, child, outcome)
        self._tell(news.Exited(number, final=outcome.final, kept=kept))
        address = child.version.admin
        if isinstance(address, UnixAddress) and not any(
            other.version.admin == address for other in self._alive.values()
        ):
            remove(address.path)
