"""Keeps an authority in step with its directory: reads changed files, and changes roots when due.

A plugged-in authority is read again when its files change; a root of our own is certified anew or
replaced when it is time. Files that can't be used are refused with the reason, and the authority
goes on signing with the certificate and key that it has.
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
from mesh_ca._metrics import RotationMetrics
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
_CHECK_TIMEOUT_S = 60.0
"""The longest that a check may take. Making a root's key may take seconds; a check that takes
longer than this waits for a file system that hangs."""

T = TypeVar("T")


class RotatingAuthority:
    """An authority that follows its directory; created by `rotating_authority`."""

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        *,
        policy: RootPolicy,
        revocations: RevocationList | None,
        on_change: Callable[[], None],
        metrics: RotationMetrics,
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
        self._checking = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._checked_stats: object = None
        self._step_at: float | None = None  # wall clock; when the next step of a replacement is due

    @property
    def problem(self) -> str | None:
        """Why the files in the directory can't be used; None if the authority signs with them."""
        return self._problem

    async def check(self) -> bool:
        """Do the steps that are due and read the files; return whether the authority changed."""
        async with self._checking:
            problems: list[str] = []
            changed = False
            try:
                signer = await self._in_thread(partial(self._step_and_read, problems), key="steps")
                changed = signer is not None and self._replace_signer(signer, problems)
                if self._revocations is not None:
                    await self._in_thread(self._revocations.refresh, key="revocations")
            except (CaError, ReadTimedOut) as error:
                problems.append(str(error))
            self._report("; ".join(problems) or None)
        if changed:
            self._on_change()
        return changed

    def _step_and_read(self, problems: list[str]) -> Signer | None:
        self._checked_stats = self._file_stats()
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

    def _replace_signer(self, new: Signer, problems: list[str]) -> bool:
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
                "the trust bundle has lost the root that was in use: certificates below it are "
                "refused from now on; put both roots into the bundle until they have expired",
                extra={"directory": str(self._directory)},
            )
        return True

    def _report(self, problem: str | None) -> None:
        self._metrics.problem.set(0 if problem is None else 1)
        if problem is not None and problem != self._problem:
            log.error(
                "files of the certificate authority not usable, signing goes on as before",
                extra={"reason": problem},
            )
        self._problem = problem

    async def run(self, check_interval: timedelta, rng: random.Random) -> None:
        """Check whenever a file has changed or a step may be due, until cancelled."""
        interval_s = check_interval.total_seconds()
        due = self._loop.time() + rng.uniform(0, interval_s)
        async with watching(timing=_TIMING) as watch:
            while True:
                await watch.follow(self._files())
                if (
                    self._loop.time() >= due
                    or self._seconds_to_step() <= 0
                    or await self._files_changed()
                ):
                    await self.check()
                    while due <= self._loop.time():
                        due += interval_s * rng.uniform(0.9, 1.1)
                pause = min(due - self._loop.time(), self._seconds_to_step())
                await watch.wait(max(pause, 0.0))

    def _seconds_to_step(self) -> float:
        return math.inf if self._step_at is None else self._step_at - self._clock()

    async def _files_changed(self) -> bool:
        try:
            return await self._in_thread(self._file_stats, key="stats") != self._checked_stats
        except ReadTimedOut:
            return False

    async def _in_thread(self, work: Callable[[], T], *, key: str) -> T:
        """Run `work` in a thread, as a mount that hangs may block it.

        Of two calls with one key the second waits for the first, so no step is done twice.
        """
        about = self._directory / CA_CERT
        whole_key = (key, str(self._directory))
        return await run_in_thread(work, path=about, key=whole_key, timeout_s=_CHECK_TIMEOUT_S)

    def _file_stats(self) -> object:
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
    """Have `authority` follow the files in `directory` until the context is left.

    Files that change are read at once, and the steps of a root's replacement are done when they are
    due. Whether a root must be certified anew is checked every `check_interval`, the first time at
    a random moment of it, so that several processes do not check at the same time.
    `on_change` is called in the event loop after the authority has changed its certificate or its
    trust bundle: tell clients then.
    """
    rotating = RotatingAuthority(
        directory,
        authority,
        policy=policy or RootPolicy(),
        revocations=revocations,
        on_change=on_change,
        metrics=RotationMetrics(registry or CollectorRegistry()),
        clock=clock,
    )
    await rotating.check()
    checks = rotating.run(check_interval, rng or random.Random())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(checks, name="certificate authority")
        try:
            yield rotating
        finally:
            task.cancel()
