"""Several signer processes behind one `sign`, each started again when it ends.

The serving process authenticates callers, decides what certificates say, and has the only view of
revocation, audit and metrics. What takes most time and needs none of that is done in the processes:
checking the signature of a request, and signing the certificate.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry

from mesh_ca._errors import CsrError, SignersUnavailable
from mesh_ca._metrics import SignerMetrics
from mesh_ca.authority._authority import KEY_REVOKED, Authority, Issued
from mesh_ca.signers._signer_process import Call, SignerProcess, started
from mesh_lifecycle import Backoff, check_fields, in_background

log = logging.getLogger("mesh_ca")

_MOST_ENDED_PROCESSES = 2
"""So many processes may end while they are at one call: it may be what ends them."""
_BACKOFF = Backoff(initial_s=0.05, maximum_s=5.0, multiplier=2.0)
_RAN_WELL_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerLimits:
    """How long signer processes are waited for, and how many calls wait for them."""

    silent_s: float = 5.0
    """A process that was asked and answers nothing for so long is replaced."""
    start_s: float = 30.0
    """The same until its first answer, before which it has to load what it needs."""
    wait_s: float = 10.0
    """A call that waits so long for a process to run is refused; agents ask again."""
    calls: int = 1024
    """What comes while so many calls have no answer is refused."""

    def __post_init__(self) -> None:
        check_fields(self)


class SignerProcesses:
    """Signs as `Authority.sign` does, in processes; created by `signer_processes`."""

    def __init__(
        self, authority: Authority, *, limits: SignerLimits, metrics: SignerMetrics
    ) -> None:
        self._authority = authority
        self._limits = limits
        self._metrics = metrics
        self._processes: dict[int, SignerProcess] = {}
        self._waiting: deque[Call] = deque()
        self._calls = 0
        self._loop = asyncio.get_running_loop()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The ids of the processes that run."""
        return tuple(self._processes)

    @property
    def unanswered(self) -> int:
        """How many calls have no answer yet; also those whose caller has gone."""
        return self._calls

    async def sign(
        self,
        csr_pem: bytes,
        *,
        identities: Sequence[str],
        lifetime: timedelta | None = None,
        proven_at: datetime | None = None,
        is_key_revoked: Callable[[str], bool] = lambda _sha256: False,
    ) -> Issued:
        """Certify the key of a CSR; parameters and errors as of `Authority.sign`.

        Whether the key is revoked is asked when the certificate is there, before it is returned.
        A process that ends has its calls done by another; raises SignersUnavailable if
        that does not help, or too many calls wait.
        """
        if self._calls >= self._limits.calls:
            raise SignersUnavailable(f"{self._calls} requests wait for a signature")
        call = Call(
            csr=csr_pem,
            identities=identities,
            lifetime=lifetime,
            proven_at=proven_at,
            answer=self._loop.create_future(),
            begun=self._loop.time(),
        )
        self._calls += 1
        self._give(call)
        issued = await call.answer
        if is_key_revoked(issued.public_key_sha256):
            raise CsrError(KEY_REVOKED)
        return issued

    def _give(self, call: Call) -> None:
        running = [each for each in self._processes.values() if not each.ended.is_set()]
        if running:
            min(running, key=lambda each: each.load).give(call)
        else:
            self._waiting.append(call)

    def _on_answer(self) -> None:
        self._calls -= 1

    def _fail(self, call: Call, reason: str) -> None:
        self._calls -= 1
        call.fail(SignersUnavailable(reason))

    async def keep_running(self) -> None:
        """Run one process, and another when it ends, until cancelled."""
        delays = _BACKOFF.delays()
        while True:
            begun = self._loop.time()
            reason = await self._run_one()
            self._metrics.ended.inc()
            if self._loop.time() - begun >= _RAN_WELL_S:
                delays = _BACKOFF.delays()
            delay = next(delays)
            log.error("signer process ended", extra={"reason": reason, "again_in_s": delay})
            await asyncio.sleep(delay)

    async def _run_one(self) -> str:
        """Run a process until it ends, and return the reason."""
        try:
            async with started(self._authority, answered=self._on_answer) as (process, pid):
                self._processes[pid] = process
                self._metrics.running.inc()
                try:
                    waiting, self._waiting = self._waiting, deque()
                    for call in waiting:
                        self._give(call)
                    await process.ended.wait()
                finally:
                    del self._processes[pid]
                    self._metrics.running.dec()
                    self._give_again(process)
        except OSError as error:
            return f"it can't be started: {error.strerror}"
        return process.reason

    def _give_again(self, process: SignerProcess) -> None:
        """Have the calls of a process that has ended done by another."""
        for position, call in enumerate(process.unanswered()):
            # It was at the first of them: the others are not what has ended it.
            call.ended_processes += position == 0
            if call.answer.done():
                self._calls -= 1
            elif call.ended_processes >= _MOST_ENDED_PROCESSES:
                self._fail(call, "signer processes end at this request")
            else:
                self._give(call)

    async def look(self) -> None:
        """End processes that hang, and calls that have waited for too long, until cancelled."""
        limits = self._limits
        while True:
            await asyncio.sleep(min(limits.silent_s, limits.wait_s) / 10)
            for process in self._processes.values():
                if process.hangs(silent_s=limits.silent_s, start_s=limits.start_s):
                    process.end("it hangs: it was asked, and answers nothing")
            late = self._loop.time() - limits.wait_s
            for _ in range(len(self._waiting)):
                call = self._waiting.popleft()
                if call.begun < late or call.answer.done():
                    self._fail(call, f"no signer process for {limits.wait_s:g} s")
                else:
                    self._waiting.append(call)

    def close(self) -> None:
        """Answer all calls that are left with an error."""
        while self._waiting:
            self._fail(self._waiting.popleft(), "the authority stops")


@asynccontextmanager
async def signer_processes(
    authority: Authority,
    *,
    count: int,
    limits: SignerLimits = SignerLimits(),
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[SignerProcesses]:
    """Run `count` processes that sign for `authority`, with whatever signer it has, meanwhile.

    They hold its key, and end with the block, or with this process however that ends. Pass the
    result's `sign` to `certificate_service`.
    """
    if count < 1:
        raise ValueError(f"{count} signer processes, at least one is needed")
    metrics = SignerMetrics(registry or CollectorRegistry())
    signers = SignerProcesses(authority, limits=limits, metrics=metrics)
    async with AsyncExitStack() as stack:
        stack.callback(signers.close)
        for number in range(count):
            running = signers.keep_running()
            await stack.enter_async_context(in_background(running, name=f"signer {number}"))
        await stack.enter_async_context(in_background(signers.look(), name="signers"))
        yield signers
