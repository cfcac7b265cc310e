"""Certificates that somebody else renews: what they share is publishing and expiry.

Like rotation, it keeps what is valid when the source fails, and withdraws what expired.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from certclient.feed._certificates import Certificates, RotationStatus
from certclient.feed._expiry import CHECK_INTERVAL_S, log_expired, remaining_s
from certclient.feed._feed import Feed
from certclient.x509._certificate import Certificate
from mesh_lifecycle import Clock

log = logging.getLogger("certclient")


class Follower:
    """Publishes what a source gives. `ask` makes the source look again."""

    def __init__(self, clock: Clock, *, ask: Callable[[], None]) -> None:
        self._clock = clock
        self._feed = Feed(RotationStatus())
        self.certificates = Certificates(self._feed, ask=ask)

    def take(self, certificate: Certificate, *, error: str | None = None) -> None:
        """Publish a certificate, unless it expired or is the one that is known.

        error: what is wrong with the source all the same.
        """
        if remaining_s(certificate, self._clock) <= 0:
            self.fail(error or f"the certificate expired at {certificate.not_after}")
            return
        status = self._feed.value
        known = status.certificate == certificate
        if error is not None and error != status.last_error:
            log.warning("certificate source failed", extra={"reason": error})
        self._feed.publish(
            RotationStatus(
                certificate=status.certificate if known else certificate,
                last_error=error,
                attempts=status.attempts + 1,
                failed_attempts=status.failed_attempts + 1 if error is not None else 0,
            )
        )
        if not known:
            log.info(
                "certificate taken over",
                extra={
                    "spiffe_id": str(certificate.spiffe_id),
                    "serial": f"{certificate.serial:x}",
                    "expires_in_s": round(remaining_s(certificate, self._clock), 1),
                },
            )

    def fail(self, reason: str) -> None:
        """Tell that the source has nothing good now; what is valid stays."""
        status = self._feed.value
        if reason != status.last_error:
            log.warning("certificate source failed", extra={"reason": reason})
        self._feed.publish(
            replace(
                status,
                last_error=reason,
                attempts=status.attempts + 1,
                failed_attempts=status.failed_attempts + 1,
            )
        )

    async def watch_expiry(self) -> None:
        """Withdraw the certificate when it expires; runs for ever."""
        while True:
            certificate = self._feed.value.certificate
            left_s = remaining_s(certificate, self._clock)
            if certificate is None:
                await self._clock.sleep(CHECK_INTERVAL_S)
            elif left_s > 0:
                await self._clock.sleep(min(left_s, CHECK_INTERVAL_S))
            else:
                self._feed.publish(replace(self._feed.value, certificate=None))
                log_expired(certificate, reason=self._feed.value.last_error)

    def close(self) -> None:
        """Tell subscribers that nothing more will come."""
        self._feed.close()
