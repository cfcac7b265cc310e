"""Publishes certificates that an external source renews: files or a Workload API.

As with rotation, a valid certificate stays when the source fails, and is withdrawn when it expires.
"""

import logging
from collections.abc import Callable

from msgspec.structs import replace

from certclient.feed._certificates import Certificates, RotationStatus
from certclient.feed._expiry import CHECK_INTERVAL_S, log_expired, remaining_s
from certclient.feed._feed import Feed
from certclient.x509._certificate import Certificate
from mesh_lifecycle import Clock

log = logging.getLogger("certclient.feed")


class SourcePublisher:
    """Publishes the certificates and the errors of one source."""

    def __init__(self, clock: Clock, *, on_request: Callable[[], None]) -> None:
        """on_request: makes the source give its newest certificate again."""
        self._clock = clock
        self._feed = Feed(RotationStatus())
        self.certificates = Certificates(self._feed, on_request=on_request)

    def publish(self, certificate: Certificate, *, error: str | None = None) -> None:
        """Publish a certificate, unless it has expired or is the current one.

        error: what is wrong with the source although it has a certificate.
        """
        if remaining_s(certificate, self._clock) <= 0:
            self.report_failure(error or f"the certificate expired at {certificate.not_after}")
            return
        status = self._feed.value
        unchanged = status.certificate == certificate
        if error is not None and error != status.last_error:
            log.warning("certificate source failed", extra={"reason": error})
        self._feed.publish(
            RotationStatus(
                certificate=status.certificate if unchanged else certificate,
                last_error=error,
                attempts=status.attempts + 1,
                failed_attempts=status.failed_attempts + 1 if error is not None else 0,
            )
        )
        if not unchanged:
            log.info(
                "certificate taken over",
                extra={
                    "spiffe_id": str(certificate.spiffe_id),
                    "serial": f"{certificate.serial:x}",
                    "expires_in_s": round(remaining_s(certificate, self._clock), 1),
                },
            )

    def report_failure(self, reason: str) -> None:
        """Publish that the source has no usable certificate; a valid one stays."""
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

    async def withdraw_when_expired(self) -> None:
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
        """End the subscriptions: no further certificate will be published."""
        self._feed.close()
