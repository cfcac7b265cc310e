"""The interface of certificate authorities, and a decorator that retries their requests."""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import Protocol

from certclient._errors import AuthorityUnavailable
from mesh_lifecycle import Backoff, Clock, SystemClock

log = logging.getLogger("certclient.authorities")


class CertificateAuthority(Protocol):
    """Signs certificates for this workload."""

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        """Return PEM certificates: leaf first, root last.

        Raises SigningRefused if the same request would be refused again, AuthorityUnavailable if a
        retry may help.
        """


class RetryingAuthority:
    """Retries a request a few times, quickly, while the authority is unavailable.

    An outage that outlasts these tries is left to the caller's own, much slower, retry.
    """

    def __init__(
        self,
        authority: CertificateAuthority,
        *,
        tries: int = 5,
        backoff: Backoff,
        clock: Clock | None = None,
        on_retry: Callable[[], None] | None = None,
        on_failed_try: Callable[[str], None] | None = None,
    ) -> None:
        """on_retry: called before each try after the first.

        on_failed_try: called with the reason of each failed try that is followed by another.
        """
        self._authority = authority
        self._tries = tries
        self._backoff = backoff
        self._clock = clock or SystemClock()
        self._on_retry = on_retry
        self._on_failed_try = on_failed_try

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        """Return what the authority returns; raises what the last try raised.

        A CancelledError that comes after a failed try has the failure as its cause.
        """
        delays = islice(self._backoff.delays(random.Random()), self._tries - 1)
        failure: AuthorityUnavailable | None = None
        try:
            for attempt, delay_s in enumerate(delays, start=1):
                try:
                    return await self._authority.sign(csr_pem, lifetime=lifetime)
                except AuthorityUnavailable as error:
                    failure = error
                self._report(failure, attempt, delay_s)
                await self._clock.sleep(delay_s)
                if self._on_retry is not None:
                    self._on_retry()
            return await self._authority.sign(csr_pem, lifetime=lifetime)
        except asyncio.CancelledError as cancelled:
            if failure is None:
                raise
            raise cancelled from failure
        finally:
            del failure  # it would reference this frame, and this frame it

    def _report(self, failure: AuthorityUnavailable, attempt: int, delay_s: float) -> None:
        if self._on_failed_try is not None:
            self._on_failed_try(str(failure))
        log.debug(
            "signing request failed, trying again",
            extra={"attempt": attempt, "reason": str(failure), "next_attempt_in_s": delay_s},
        )
