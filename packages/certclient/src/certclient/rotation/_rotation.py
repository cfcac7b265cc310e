"""The loop that renews a certificate and publishes it to all subscribers.

The loop reads the clock and decides, by the functions of `_schedule`, when an attempt starts. Each
attempt (`_request`) is a task of its own, so that an authority that never answers can't keep an
expired certificate in use.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from certclient._errors import CertClientError
from certclient.authorities._authority import CertificateAuthority
from certclient.feed._certificates import Certificates, RotationStatus
from certclient.feed._expiry import CHECK_INTERVAL_S, log_expired, remaining_s
from certclient.feed._feed import Feed
from certclient.rotation._request import CertificateRequests, Failure
from certclient.rotation._retry_on_change import retry_on_change
from certclient.rotation._rotation_config import RotationConfig
from certclient.rotation._schedule import (
    CLOCK_STEP_S,
    Schedule,
    after_clock_step,
    after_expiry,
    after_failure,
    after_success,
    after_taking_up,
    renewal_time,
    retry_delay,
    seconds_until_due,
)
from certclient.rotation._taking_up import EarlierCertificate, taken_up
from certclient.rotation._timeout import within
from certclient.x509._certificate import Certificate
from mesh_lifecycle import Clock, RepeatLog, SystemClock, in_background

log = logging.getLogger("certclient.rotation")


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
        self._requests = CertificateRequests(config, authority, clock)
        self._clock = clock
        self._rng = rng
        self._feed = Feed(RotationStatus())
        self._schedule = Schedule()
        self._delays = config.backoff.delays(rng)
        self._without_one, self._keeping = (
            RepeatLog(log, message, quiet_s=math.inf, now=clock.monotonic)
            for message in (
                "certificate request failed, there is no valid one",
                "certificate renewal failed, keeping the current one",
            )
        )
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
                await within(self._clock, seconds, self._wake.wait(), name="renewal request")
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
        remaining = remaining_s(self._feed.value.certificate, self._clock)
        outcome = await self._requests.make(remaining_s=remaining)
        if isinstance(outcome, Failure):
            self._on_failure(outcome)
        else:
            self._on_success(outcome)

    def _on_success(self, certificate: Certificate) -> None:
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
        for failures in (self._without_one, self._keeping):
            failures.ended(str(self._config.spiffe_id), silently=True)
        log.info(
            "certificate renewed",
            extra={
                "spiffe_id": str(certificate.spiffe_id),
                "serial": f"{certificate.serial:x}",
                "expires_in_s": round(certificate.not_after.timestamp() - now, 1),
                "renews_in_s": round(renews_at.timestamp() - now, 1),
            },
        )

    def _on_failure(self, failure: Failure) -> None:
        status = self._feed.value
        monotonic = self._clock.monotonic()
        remaining = remaining_s(status.certificate, self._clock)
        delay = retry_delay(
            next(self._delays),
            remaining_s=remaining,
            refused=failure.refused,
            spread=self._rng.random(),
        )
        self._schedule = after_failure(self._schedule, monotonic=monotonic, delay_s=delay)
        attempt = status.failed_attempts + 1
        self._feed.publish(
            replace(
                status,
                last_error=failure.reason,
                refused=failure.refused,
                attempts=status.attempts + 1,
                failed_attempts=attempt,
            )
        )
        failures = self._without_one if status.certificate is None else self._keeping
        failures.happened(
            str(self._config.spiffe_id),
            reason=failure.reason,
            facts={
                "spiffe_id": str(self._config.spiffe_id),
                "attempt": attempt,
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
