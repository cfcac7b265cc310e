"""Carries out the decisions of `_fleet`: starts, watches, signals and tidies up after processes."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections import deque
from dataclasses import dataclass
from typing import Any, assert_never

from envoy_supervisor import _news as news
from envoy_supervisor._address import UnixAddress
from envoy_supervisor._background import Background
from envoy_supervisor._child import Child, start_child
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import EnvoyNotFound, EnvoySupervisorError, RestartRefused
from envoy_supervisor._exit import Exit, ExitCause
from envoy_supervisor._families import Families
from envoy_supervisor._fleet import advance
from envoy_supervisor._hot_restart import release_stale
from envoy_supervisor._keeper import SocketKeeper
from envoy_supervisor._members import Fleet, Member, Phase, Stage
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
        self.down = asyncio.Event()  # an end left nobody ready, and nobody started since
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._config = config
        self._clock = clock
        self._rng = random.Random()
        self._versions = {version.name: version}
        self._children: dict[int, Child] = {}
        self._latest: Child | None = None
        self._exits: dict[int, Exit] = {}
        self._background = Background()
        self.keeper = SocketKeeper(
            config, clock=clock, may_ask=self._may_ask, background=self._background
        )
        self._news: deque[news.Event] = deque()
        self._working = False
        self._families = Families(config.directory)
        self._deferred: dict[int, asyncio.Task[None]] = {}
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
        self.tell(news.Tick())
        if self._not_started is not None:
            raise self._not_started

    async def replace(self, version: Version) -> None:
        """Run this version from now on; returns when it serves, raises `RestartRefused`."""
        if self.fleet.phase is not Phase.RUNNING:
            raise RestartRefused("envoy is being stopped")
        self._versions[version.name] = version
        outcome = self._outcomes[version.name] = asyncio.get_running_loop().create_future()
        try:
            self.tell(news.Wanted(version.name))
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
            self.tell(news.DrainOver())
            await self.ended_within(self._config.stop_grace.total_seconds() + KILLED_S)
        finally:
            self.keeper.close()
            for child in list(self._children.values()):
                await child.process.kill()
            await self._background.cancel()

    def tell(self, event: news.Event) -> None:
        """Have an event answered. One that comes while another is answered waits for its turn."""
        self._news.append(event)
        if self._working:
            return
        self._working = True
        try:
            while self._news:
                self.fleet, actions = advance(
                    self.fleet,
                    self._news.popleft(),
                    now=self._clock.monotonic(),
                    policy=self._config.crashes,
                    rng=self._rng,
                )
                if self.fleet.phase is not Phase.RUNNING:
                    self.keeper.close()
                for action in actions:
                    self._do(action)
        finally:
            self._working = False
        self._tidy()
        if self.fleet.phase is Phase.ENDED and not self.exited.done():
            self._finish()

    def _do(self, action: news.Action) -> None:
        match action:
            case news.Start(member):
                self._prepare(member)
            case news.Terminate(number):
                self._signal(number, signal.SIGTERM)
                self._later(self._config.stop_grace.total_seconds(), news.Overdue(number))
            case news.Kill(number):
                log.warning("envoy does not exit, killing it", extra=self._facts(number))
                self._signal(number, signal.SIGKILL)
            case news.Retire(number):
                # Its child ends it after that time; if the child has ended, we do.
                shutdown_s = self._config.parent_shutdown_time.total_seconds()
                self._later(shutdown_s + RETIRE_MARGIN_S, news.RetireDue(number))
            case news.WakeAt(when):
                self._later(when - self._clock.monotonic(), news.Tick())
            case news.Refused(version, number):
                ended = self._exits.get(number)
                reason = ended.reason if ended else "envoy did not get ready in time"
                self.refuse(reason)
                self._decide(version, RestartRefused(reason))
            case news.Crashed(number, delay_s):
                facts: dict[str, object] = {
                    "delay_s": round(delay_s, 3),
                    "crashes": len(self.fleet.crashes),
                    "kept_sockets": self.keeper.count,
                }
                log.warning("envoy is started again", extra=facts)
            case _:
                assert_never(action)

    def _prepare(self, member: Member) -> None:
        """Clear the way for a process, and start it."""
        self._families.add(member.family)
        if member.epoch == 0:
            # A socket of a dead Envoy would take connections that are meant for this one.
            self.keeper.release()
            self._start(member)
            return
        self.keeper.pause()
        if member.heir:
            self._families.stand_in(
                member.family,
                member.epoch - 1,
                claim=self.keeper.claim,
                live=self._heir_is_live,
            )
        elif self._workers_change(member):
            # Fewer workers: the sockets of those too many would be ours alone, and get a share.
            self.keeper.release()
        else:
            # A child before this one may have told the parent to stop listening, and died.
            self.keeper.check()
        if not self.keeper.asking:
            self._start(member)
            return
        log.debug("envoy is started when the one before has answered")
        work = self._start_when_quiet(member)
        task = self._background.start(work, name="envoy start when quiet")
        self._deferred[member.number] = task

    def _workers_change(self, member: Member) -> bool:
        before = self.fleet.first(Stage.READY)
        if before is None:
            return True
        old, new = self._versions[before.version].config, self._versions[member.version].config
        return (old.concurrency, old.extra_args) != (new.concurrency, new.extra_args)

    def _may_ask(self, child: Child) -> bool:
        """Whether answers of that process come to us, and not to the next of its family."""
        serving = self.fleet.first(Stage.READY)
        if serving is None or serving.number != child.member.number:
            return False
        return not self._there_is((serving.family, serving.epoch + 1))

    def _there_is(self, place: tuple[int, int]) -> bool:
        """Whether there is a process of that family and epoch."""
        return place in [(member.family, member.epoch) for member in self.fleet.members]

    async def _start_when_quiet(self, member: Member) -> None:
        """A question of ours is open, and its answer would go to the new process instead."""
        try:
            async with asyncio.timeout(self._config.restart_timeout.total_seconds()):
                await self.keeper.quiet()
        except TimeoutError:
            del self._deferred[member.number]
            self._not_begun(member, "the envoy that serves does not answer")
        else:
            del self._deferred[member.number]
            self._start(member)

    def _not_begun(self, member: Member, reason: str, *, final: bool = False) -> None:
        self._exits[member.number] = Exit(
            code=None, signal=None, cause=ExitCause.FAILED, reason=reason
        )
        self.tell(news.Exited(member.number, final=final))

    def _start(self, member: Member) -> None:
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
            self._not_begun(member, str(error), final=isinstance(error, EnvoyNotFound))
            return
        self._children[member.number] = self._latest = child
        self.down.clear()
        watch = self._background.start(
            self._watch(child), name=f"envoy {child.process.pid} readiness"
        )
        child.process.exited.add_done_callback(lambda _: watch.cancel())
        child.process.exited.add_done_callback(lambda _: self._on_exit(child))

    async def _watch(self, child: Child) -> None:
        number = child.member.number
        # The first start may have to wait for a control plane; a restart has a parent to fall
        # back on, and an heir a new family.
        limit_s = self._config.restart_timeout.total_seconds() if child.member.epoch > 0 else None
        try:
            async with asyncio.timeout(limit_s):
                await child.until_ready()
        except TimeoutError:
            log.warning("envoy does not get ready", extra=self._facts(number))
            self.tell(news.TookTooLong(number))
            return
        child.ready_at = self._clock.monotonic()
        took_s = round(child.ready_at - child.started, 3)
        log.info("envoy is ready", extra={**self._facts(number), "after_s": took_s})
        self.tell(news.BecameReady(number))
        self.keeper.take(child)
        self.ready.set()
        self.down.clear()
        self.counts.restarts += child.member.epoch > 0 and not child.member.heir
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
        next_one = (member.family, member.epoch + 1)
        if member.stage is Stage.RETIRING and self._there_is(next_one):
            self._families.stand_in(member.family, member.epoch)
        if member.stage is Stage.READY and self.fleet.phase is Phase.RUNNING:
            self.ready.clear()
        if not self.ready.is_set():
            self.down.set()
        final = outcome.cause in FINAL
        kept = not final and self._sockets_kept(member, child, outcome)
        self.tell(news.Exited(number, final=final, kept=kept))
        address = child.version.admin
        if isinstance(address, UnixAddress) and not any(
            other.version.admin == address for other in self._children.values()
        ):
            address.path.unlink(missing_ok=True)

    def _sockets_kept(self, member: Member, child: Child, outcome: Exit) -> bool:
        """Whether the next process can take over the listening sockets of one that has died."""
        if self.fleet.phase is not Phase.RUNNING:
            return False
        if member.stage is Stage.READY:
            kept = self.keeper.bequeath(child)
        elif member.stage is Stage.STARTING and member.heir:
            # Killed from outside it has proved nothing; else taking over may be what it cannot.
            kept = outcome.signal == signal.SIGKILL and self.keeper.bequeath(child)
        else:
            self.keeper.check()
            return False
        if not kept:
            self.keeper.release()
        return kept

    def _heir_is_live(self) -> None:
        if self._latest is not None:
            self.keeper.inherit(self._latest)

    def _tidy(self) -> None:
        """Remove what outlives processes, once no process is left that needs it."""
        needed = {member.family for member in self.fleet.members}
        if self.fleet.legacy is not None and self.fleet.phase is Phase.RUNNING:
            needed.add(self.fleet.legacy.family)
        self._families.keep_only(needed)

    def _finish(self) -> None:
        number = max(self._exits) if self.fleet.verdict is None else self.fleet.verdict
        self.exited.set_result(self._exits[number])
        self.down.set()
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
        elif (task := self._deferred.pop(number, None)) is not None:
            task.cancel()
            member = self.fleet.member(number)
            assert member is not None  # noqa: S101 - it was to be started
            self._not_begun(member, "envoy was not started any more")

    def _facts(self, number: int) -> dict[str, object]:
        child = self._children.get(number)
        return {"pid": child.process.pid, "epoch": child.member.epoch} if child else {}

    def _later(self, seconds: float, event: news.Event) -> None:
        async def tell() -> None:
            await self._clock.sleep(seconds)
            self.tell(event)

        self._background.start(tell(), name=f"envoy timer {type(event).__name__}")
