"""Keeps an authority what its directory says: reads changes, and makes those that are due.

A plugged-in authority is read again when its files change; a root of our own is changed in time.
What can't be used is refused with its reason, and the authority goes on with what it has.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from mesh_ca._errors import CaError, StorageError
from mesh_ca._metrics import KeeperMetrics
from mesh_ca.authority._authority import Authority
from mesh_ca.authority._profile import whole_second
from mesh_ca.authority._signer import CA_CERT, CA_KEY, CERT_CHAIN, ROOT_CERT, Signer
from mesh_ca.directory._own_root import ROOT_STATE, RootPolicy
from mesh_ca.directory._reading import load_signer
from mesh_ca.directory._root_changes import apply_due_steps, next_step_at
from mesh_ca.revocation._revocation_list import RevocationList
from mesh_filewatch import ReadTimedOut, WatchTiming, file_stat, run_in_thread, watching

log = logging.getLogger("mesh_ca")

CHECK_INTERVAL = timedelta(hours=1)
_TIMING = WatchTiming(settle_s=0.05, max_settle_s=1.0)
_ASIDE_S = 60.0
"""Making a root's key may take seconds; longer than this, it is the file system."""

T = TypeVar("T")


class RotatingAuthority:
    """Made by `rotating_authority`."""

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        *,
        policy: RootPolicy,
        revocations: RevocationList | None,
        on_change: Callable[[], None],
        metrics: KeeperMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._directory = directory
        self._authority = authority
        self._policy = policy
        self._revocations = revocations
        self._on_change = on_change
        self._metrics = metrics
        self._clock = clock
        self._problem: str | None = None
        self._turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._seen: object = None
        self._step_at: float | None = None  # wall clock; when the next step of a replacement is due

    @property
    def problem(self) -> str | None:
        """Why the directory can't be used as it is now; None if it is what is signed with."""
        return self._problem

    async def look(self) -> bool:
        """Do what is due and read the directory now; tells whether the authority has changed."""
        async with self._turn:
            problems: list[str] = []
            changed = False
            try:
                signer = await self._aside(partial(self._work, problems), key="work")
                changed = signer is not None and self._take(signer, problems)
                if self._revocations is not None:
                    await self._aside(self._revocations.refresh, key="revocations")
            except (CaError, ReadTimedOut) as error:
                problems.append(str(error))
            self._tell("; ".join(problems) or None)
        if changed:
            self._on_change()
        return changed

    def _work(self, problems: list[str]) -> Signer | None:
        self._seen = self._stamps()
        self._step_at = None  # a step that fails is tried again at the next interval, not at once
        try:
            apply_due_steps(self._directory, self._policy, now=self._clock())
            self._step_at = next_step_at(self._directory)
        except StorageError as error:
            problems.append(f"the root can't be changed: {error}")
        try:
            return load_signer(self._directory)
        except StorageError as error:
            problems.append(str(error))
            return None

    def _take(self, new: Signer, problems: list[str]) -> bool:
        old = self._authority.signer
        if new.same_as(old):
            return False
        now = whole_second(self._clock())
        if not new.not_before <= now < new.not_after:
            problems.append(
                f"the certificates in {self._directory} are valid from {new.not_before:%F %T} "
                f"to {new.not_after:%F %T} UTC: put valid ones there"
            )
            return False
        self._authority.replace_signer(new)
        self._metrics.changes.inc()
        log.info(
            "certificate authority changed",
            extra={
                "directory": str(self._directory),
                "subject": new.certificate.subject.rfc4514_string(),
                "serial": f"{new.certificate.serial_number:x}",
                "roots": len(new.roots),
                "expires": new.not_after.isoformat(),
            },
        )
        if not any(root.public_key() == old.root.public_key() for root in new.roots):
            log.warning(
                "trust bundle without the root in use so far: certificates below it are refused "
                "from now on, and their owners can't tell; a bundle with both roots is safer",
                extra={"directory": str(self._directory)},
            )
        return True

    def _tell(self, problem: str | None) -> None:
        self._metrics.problem.set(0 if problem is None else 1)
        if problem is not None and problem != self._problem:
            log.error(
                "certificate authority's directory not usable, it goes on with what it has",
                extra={"reason": problem},
            )
        self._problem = problem

    async def keep(self, check_interval: timedelta, rng: random.Random) -> None:
        """Look whenever something may have changed or be due, for ever."""
        interval_s = check_interval.total_seconds()
        due = self._loop.time() + rng.uniform(0, interval_s)
        async with watching(timing=_TIMING) as watch:
            while True:
                await watch.follow(self._files())
                if (
                    self._loop.time() >= due
                    or self._seconds_to_step() <= 0
                    or await self._differs()
                ):
                    await self.look()
                    while due <= self._loop.time():
                        due += interval_s * rng.uniform(0.9, 1.1)
                pause = min(due - self._loop.time(), self._seconds_to_step())
                await watch.wait(max(pause, 0.0))

    def _seconds_to_step(self) -> float:
        return math.inf if self._step_at is None else self._step_at - self._clock()

    async def _differs(self) -> bool:
        try:
            return await self._aside(self._stamps, key="stamps") != self._seen
        except ReadTimedOut:
            return False

    async def _aside(self, work: Callable[[], T], *, key: str) -> T:
        """Do what a mount that hangs may hold up; one at a time, so that no step is done twice."""
        about = self._directory / CA_CERT
        whole_key = (key, str(self._directory))
        return await run_in_thread(work, path=about, key=whole_key, timeout_s=_ASIDE_S)

    def _stamps(self) -> object:
        return tuple(map(file_stat, self._files()))

    def _files(self) -> tuple[Path, ...]:
        names = (CA_CERT, CA_KEY, CERT_CHAIN, ROOT_CERT, ROOT_STATE)
        revoked = () if self._revocations is None else (self._revocations.file,)
        return (*(self._directory / name for name in names), *revoked)


@asynccontextmanager
async def rotating_authority(
    directory: Path,
    authority: Authority,
    *,
    policy: RootPolicy | None = None,
    revocations: RevocationList | None = None,
    check_interval: timedelta = CHECK_INTERVAL,
    on_change: Callable[[], None] = lambda: None,
    registry: CollectorRegistry | None = None,
    clock: Callable[[], float] = time.time,
    rng: random.Random | None = None,
) -> AsyncIterator[RotatingAuthority]:
    """Keep `authority` what `directory` says until the context is left.

    Files that change are read at once, and the steps of a root's replacement are done when they are
    due. What is due besides is looked for every `check_interval`, the first time at a random moment
    of it, so that several processes do not look together.
    `on_change` is called in the event loop after the authority has changed its certificate or its
    trust bundle: tell clients then.
    """
    keeper = RotatingAuthority(
        directory,
        authority,
        policy=policy or RootPolicy(),
        revocations=revocations,
        on_change=on_change,
        metrics=KeeperMetrics(registry or CollectorRegistry()),
        clock=clock,
    )
    await keeper.look()
    keeping = keeper.keep(check_interval, rng or random.Random())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(keeping, name="certificate authority")
        try:
            yield keeper
        finally:
            task.cancel()
