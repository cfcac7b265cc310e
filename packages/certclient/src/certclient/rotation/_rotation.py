"""The loop that renews a certificate and publishes it to all subscribers.

The loop reads the clock and decides, by the functions of `_schedule`, when an attempt starts. Each
attempt is a task of its own, so that an authority that never answers can't keep an expired
certificate in use.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from certclient._errors import (
    CertClientError,
    CertificateRejected,
    InvalidConfig,
    SigningRefused,
)
from certclient.authorities._authority import CertificateAuthority
from certclient.feed._certificates import Certificates, RotationStatus
from certclient.feed._expiry import CHECK_INTERVAL_S, log_expired, remaining_s
from certclient.feed._feed import Feed
from certclient.rotation._retry_on_change import retry_on_change
from certclient.rotation._schedule import (
    CLOCK_STEP_S,
    Schedule,
    after_clock_step,
    after_expiry,
    after_failure,
    after_success,
    after_taking_up,
    answer_timeout,
    renewal_time,
    retry_delay,
    seconds_until_due,
)
from certclient.rotation._taking_up import EarlierCertificate, taken_up
from certclient.x509._acceptance import accept
from certclient.x509._certificate import Certificate
from certclient.x509._keys import KeyEncoding, KeyType, PrivateKey, new_private_key, signing_request
from mesh_identity import SpiffeId
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background

log = logging.getLogger("certclient.rotation")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationConfig:
    """Which certificate to request, and when to renew it.

    lifetime: requested of the authority, which may give less. Below ten seconds no time is left for
        a second attempt.
    grace_ratio: the part of the lifetime that is left when renewal starts, 0 to 1.
    jitter: renewal starts up to this part of the lifetime earlier or later, so that workloads that
        started together do not renew together.
    backoff: the delays between failed attempts; shortened when the certificate's end is near.
    answer_timeout_s: the longest one attempt may take, the authority's own retries included.
    """

    spiffe_id: SpiffeId
    key_type: KeyType = KeyType.P256
    key_encoding: KeyEncoding = KeyEncoding.PKCS8
    lifetime: timedelta = timedelta(hours=24)
    grace_ratio: float = 0.5
    jitter: float = 0.01
    backoff: Backoff = field(default_factory=Backoff)
    answer_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if self.lifetime < timedelta(seconds=1):
            raise InvalidConfig(f"lifetime must be at least 1 s, got {self.lifetime}")
        if not 0 <= self.grace_ratio <= 1 or not 0 <= self.jitter <= 1:
            raise InvalidConfig(
                "grace_ratio and jitter must lie between 0 and 1, "
                f"got {self.grace_ratio} and {self.jitter}"
            )
        if self.answer_timeout_s <= 0:
            raise InvalidConfig(f"answer_timeout_s must be above 0, got {self.answer_timeout_s}")


@asynccontextmanager
async def keep_fresh(
    config: RotationConfig,
    authority: CertificateAuthority,
    *,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    depends_on: Collection[Path] = (),
    earlier: EarlierCertificate | None = None,
) -> AsyncIterator[Certificates]:
    """Request a certificate, and a new one before each expires, for as long as the block runs.

    Does not wait for the first certificate and does not fail without one: see
    `Certificates.wait_for_first` and `last_error`.
    depends_on: files that an attempt may fail for, as `IstioCaConfig.files`. While attempts fail
        these are watched, and a change to one starts the next attempt at once.
    earlier: where the certificate of an earlier run may be. One that is still good is taken up, and
        renewed when its lifetime says so.
    """
    rotation = _Rotation(
        config, authority, clock=clock or SystemClock(), rng=rng or random.Random(), earlier=earlier
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(in_background(rotation.run(), name="certificate rotation"))
        if depends_on:
            retrying = retry_on_change(
                rotation.certificates, tuple(depends_on), retry=rotation.retry_now
            )
            await stack.enter_async_context(in_background(retrying, name="retry on change"))
        try:
            yield rotation.certificates
        finally:
            rotation.close()


class _Rotation:
    def __init__(
        self,
        config: RotationConfig,
        authority: CertificateAuthority,
        *,
        clock: Clock,
        rng: random.Random,
        earlier: EarlierCertificate | None,
    ) -> None:
        self._earlier = earlier
        self._config = config
        self._authority = authority
        self._clock = clock
        self._rng = rng
        self._feed = Feed(RotationStatus())
        self._schedule = Schedule()
        self._delays = config.backoff.delays(rng)
        self._pending_key: PrivateKey | None = None
        self._attempting = False
        self._requested = False
        self._retry_after_attempt = False
        self._wake = asyncio.Event()
        self.certificates = Certificates(self._feed, on_request=self._request)

    async def run(self) -> None:
        if self._earlier is not None:
            await self._take_up(self._earlier)
        async with asyncio.TaskGroup() as attempts:
            while True:
                self._withdraw_if_expired()
                due_s = self._seconds_until_due()
                if due_s <= 0 and not self._attempting:
                    self._start_attempt(attempts)
                await self._pause(due_s)

    def close(self) -> None:
        self._feed.close()

    def _request(self) -> None:
        if not self._attempting:
            self._requested = True
            self._wake.set()

    def retry_now(self) -> None:
        """Start an attempt, because the reason for the last failure may have gone.

        An attempt that is under way may have started before the change, so another follows if it
        fails.
        """
        if self._attempting:
            self._retry_after_attempt = True
        else:
            self._request()

    async def _take_up(self, earlier: EarlierCertificate) -> None:
        """Go on with the certificate of an earlier run, if it is still good."""
        config, now = self._config, datetime.fromtimestamp(self._clock.now(), UTC)
        try:
            found = await earlier.fetch()
            if found is None:
                return
            certificate = taken_up(
                found,
                spiffe_id=config.spiffe_id,
                key_type=config.key_type,
                key_encoding=config.key_encoding,
                now=now,
            )
        except CertClientError as error:
            self._not_taken_up(str(error))
        except Exception as error:
            # Whatever a file may do to a parser, the program gets another certificate.
            log.exception("the certificate of an earlier run cannot be checked")
            self._not_taken_up(f"unexpected {type(error).__name__}")
        else:
            self._publish_taken_up(certificate, is_current=found.is_current)

    def _not_taken_up(self, reason: str) -> None:
        log.warning(
            "the certificate of an earlier run is not used, another one is requested",
            extra={"spiffe_id": str(self._config.spiffe_id), "reason": reason},
        )
        self._feed.publish(replace(self._feed.value, not_taken_up=reason))

    def _publish_taken_up(self, certificate: Certificate, *, is_current: bool) -> None:
        now, config = self._clock.now(), self._config
        # A lifetime that has been shortened since counts from now on.
        ends = min(certificate.not_after, certificate.not_before + config.lifetime)
        renews_at = renewal_time(
            certificate.not_before, ends, config.grace_ratio, config.jitter, self._rng
        )
        if not is_current:
            renews_at = datetime.fromtimestamp(now, UTC)
        self._schedule = after_taking_up(now=now, renews_at=renews_at)
        self._feed.publish(
            RotationStatus(certificate=certificate, renews_at=renews_at, taken_up=True)
        )
        log.info(
            "certificate of an earlier run taken up",
            extra={
                "spiffe_id": str(certificate.spiffe_id),
                "serial": f"{certificate.serial:x}",
                "expires_in_s": round(certificate.not_after.timestamp() - now, 1),
                "renews_in_s": round(renews_at.timestamp() - now, 1),
            },
        )

    def _start_attempt(self, attempts: asyncio.TaskGroup) -> None:
        self._attempting = True
        self._requested = False
        attempts.create_task(self._attempt(), name="certificate renewal")

    async def _attempt(self) -> None:
        try:
            await self._renew()
        finally:
            # Before subscribers get the outcome, so that a request they make then is a new one.
            self._attempting = False
            retry, self._retry_after_attempt = self._retry_after_attempt, False
            if retry and self._feed.value.last_error is not None:
                self._requested = True
            self._wake.set()

    def _seconds_until_due(self) -> float:
        return seconds_until_due(
            self._schedule,
            now=self._clock.now(),
            monotonic=self._clock.monotonic(),
            requested=self._requested,
        )

    async def _pause(self, due_s: float) -> None:
        """Sleep until an attempt is due or requested, or it is time to read the clock again."""
        seconds = CHECK_INTERVAL_S
        if not self._attempting:
            seconds = min(seconds, due_s)
        if (certificate := self._feed.value.certificate) is not None:
            seconds = min(seconds, remaining_s(certificate, self._clock))
        offset = self._clock.now() - self._clock.monotonic()
        if self._requested:
            await self._clock.sleep(seconds)
        else:
            with suppress(TimeoutError):
                await _within(self._clock, seconds, self._wake.wait(), name="renewal request")
            self._wake.clear()
        step = self._clock.now() - self._clock.monotonic() - offset
        if abs(step) > CLOCK_STEP_S:
            log.info("wall clock stepped or machine slept", extra={"step_s": round(step, 3)})
            self._schedule = after_clock_step(self._schedule)

    def _withdraw_if_expired(self) -> None:
        certificate = self._feed.value.certificate
        if certificate is not None and remaining_s(certificate, self._clock) <= 0:
            self._withdraw(certificate)

    async def _renew(self) -> None:
        config = self._config
        remaining = remaining_s(self._feed.value.certificate, self._clock)
        timeout_s = answer_timeout(config.answer_timeout_s, remaining_s=remaining)
        try:
            # A key without a certificate is used for the next attempt too: generating an RSA key
            # every few seconds of an outage would cost too much.
            key = self._pending_key or await new_private_key(config.key_type)
            self._pending_key = key
            request = signing_request(key, config.spiffe_id)
            chain = await _within(
                self._clock,
                timeout_s,
                self._authority.sign(request, lifetime=config.lifetime),
                name="certificate signing",
            )
            certificate = accept(
                chain,
                key=key,
                spiffe_id=config.spiffe_id,
                now=datetime.fromtimestamp(self._clock.now(), UTC),
                key_encoding=config.key_encoding,
            )
        except TimeoutError as error:
            reason = f"no answer within {timeout_s:.1f} s"
            if isinstance(error.__cause__, CertClientError):
                reason += f", and the try before failed: {error.__cause__}"
            self._failed(reason, refused=False)
        except (SigningRefused, CertificateRejected) as error:
            self._pending_key = None
            self._failed(str(error), refused=True)
        except CertClientError as error:
            self._failed(str(error), refused=False)
        except Exception as error:
            # The authority is the caller's object, and a bug in it must not end rotation.
            log.exception("certificate authority client failed unexpectedly")
            self._failed(f"unexpected {type(error).__name__}", refused=True)
        else:
            self._pending_key = None
            self._succeeded(certificate)

    def _succeeded(self, certificate: Certificate) -> None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        # The lifetime is counted from now: authorities backdate certificates, and half of a short
        # lifetime that is backdated may be over at once.
        renews_at = renewal_time(
            datetime.fromtimestamp(now, UTC),
            certificate.not_after,
            self._config.grace_ratio,
            self._config.jitter,
            self._rng,
        )
        self._delays = self._config.backoff.delays(self._rng)
        self._schedule = after_success(now=now, monotonic=monotonic, renews_at=renews_at)
        self._feed.publish(
            RotationStatus(
                certificate=certificate,
                renews_at=renews_at,
                attempts=self._feed.value.attempts + 1,
            )
        )
        log.info(
            "certificate renewed",
            extra={
                "spiffe_id": str(certificate.spiffe_id),
                "serial": f"{certificate.serial:x}",
                "expires_in_s": round(certificate.not_after.timestamp() - now, 1),
                "renews_in_s": round(renews_at.timestamp() - now, 1),
            },
        )

    def _failed(self, reason: str, *, refused: bool) -> None:
        status = self._feed.value
        monotonic = self._clock.monotonic()
        remaining = remaining_s(status.certificate, self._clock)
        delay = retry_delay(
            next(self._delays),
            remaining_s=remaining,
            refused=refused,
            spread=self._rng.random(),
        )
        self._schedule = after_failure(self._schedule, monotonic=monotonic, delay_s=delay)
        attempt = status.failed_attempts + 1
        self._feed.publish(
            replace(
                status,
                last_error=reason,
                refused=refused,
                attempts=status.attempts + 1,
                failed_attempts=attempt,
            )
        )
        message = (
            "certificate request failed, there is no valid one"
            if status.certificate is None
            else "certificate renewal failed, keeping the current one"
        )
        log.warning(
            message,
            extra={
                "spiffe_id": str(self._config.spiffe_id),
                "attempt": attempt,
                "reason": reason,
                "next_attempt_in_s": round(delay, 2),
                "expires_in_s": round(remaining, 1),
            },
        )

    def _withdraw(self, certificate: Certificate) -> None:
        self._schedule = after_expiry(self._schedule)
        self._feed.publish(
            replace(self._feed.value, certificate=None, renews_at=None, taken_up=False)
        )
        log_expired(certificate, reason=self._feed.value.last_error)


async def _within(
    clock: Clock, seconds: float, work: Coroutine[object, object, T], *, name: str
) -> T:
    """Return the result of `work`; raises TimeoutError after `seconds` of `clock`.

    asyncio.timeout does the same on the event loop's clock, which tests can't control. The
    TimeoutError has the cause that `work` gave its CancelledError.
    """
    task = asyncio.create_task(work, name=name)
    timer = asyncio.create_task(clock.sleep(seconds), name=f"timer of {name}")
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
            raise TimeoutError from _cause_of_end(task)
        if task.cancelled():
            # Raised as it is, it would look like a cancellation of the caller.
            raise RuntimeError(f"{name} was cancelled from within")
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)


def _cause_of_end(task: asyncio.Task[T]) -> BaseException | None:
    """Return the cause of a task's cancellation, or its error; None without either."""
    try:
        task.result()
    except asyncio.CancelledError as cancelled:
        return cancelled.__cause__
    except Exception as error:  # noqa: BLE001 - it is the cause of another
        return error
    return None
