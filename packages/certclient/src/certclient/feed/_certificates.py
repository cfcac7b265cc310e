"""What subscribers hold: the newest certificate, and word of the next."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from certclient._errors import FeedClosed, RenewalFailed
from certclient.feed._feed import Feed
from certclient.x509._certificate import Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationStatus:
    """Where rotation stands, as one coherent snapshot.

    certificate: the valid one, None before the first and after the last expired.
    renews_at: when renewal is due; None without a certificate.
    last_error: why the newest attempt failed; None once one succeeds.
    refused: the newest attempt was answered, and the answer was no good: the same request will
        hardly fare better soon.
    attempts, failed_attempts: all so far; those that failed since the last success.
    """

    certificate: Certificate | None = None
    renews_at: datetime | None = None
    last_error: str | None = None
    refused: bool = False
    attempts: int = 0
    failed_attempts: int = 0


class Certificates:
    """The newest certificate and the news of the next: what subscribers hold."""

    def __init__(self, feed: Feed[RotationStatus], *, ask: Callable[[], None]) -> None:
        self._feed = feed
        self._ask = ask

    @property
    def status(self) -> RotationStatus:
        """Everything known now."""
        return self._feed.value

    @property
    def latest(self) -> Certificate | None:
        """The valid certificate; None before the first and after it expired unrenewed."""
        return self._feed.value.certificate

    @property
    def last_error(self) -> str | None:
        """Why the newest attempt failed; None once one succeeds."""
        return self._feed.value.last_error

    async def wait_for_first(self) -> Certificate:
        """Wait until there is a valid certificate; raises FeedClosed if rotation stops before."""
        version = self._feed.version
        while (certificate := self.latest) is None:
            version = await self._feed.wait_newer(version)
        return certificate

    def changes(self) -> "CertificateChanges":
        """Iterate over the certificates from now on, the newest at once if there is one.

        None tells that the certificate expired and there is no other. A slow reader sees the
        newest only, and always the last. Ends when rotation is stopped.
        """
        return CertificateChanges(self._feed)

    async def statuses(self) -> AsyncIterator[RotationStatus]:
        """Yield each status from now on, failed attempts included; coalesced, never missing the
        last. Ends when rotation is stopped.
        """
        version = -1
        with suppress(FeedClosed):
            while True:
                version = await self._feed.wait_newer(version)
                yield self._feed.value

    def request_renewal(self) -> None:
        """Ask for a new certificate soon; joins the attempt that is under way, if one is."""
        self._ask()

    async def renew(self) -> Certificate:
        """Ask for a new certificate and wait for it; raises RenewalFailed with the reason.

        Everybody who asks while an attempt is under way shares its outcome.
        """
        before = self._feed.value.attempts
        version = self._feed.version
        self._ask()
        while (status := self._feed.value).attempts == before:
            version = await self._feed.wait_newer(version)
        if status.last_error is not None or status.certificate is None:
            raise RenewalFailed(status.last_error or "the certificate expired at once")
        return status.certificate


class CertificateChanges:
    """Iterator over a feed's certificates, for one reader."""

    def __init__(self, feed: Feed[RotationStatus]) -> None:
        self._feed = feed
        self._version = -1
        self._seen: Certificate | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Certificate | None:
        try:
            while True:
                self._version = await self._feed.wait_newer(self._version)
                certificate = self._feed.value.certificate
                if certificate is not self._seen:
                    self._seen = certificate
                    return certificate
        except FeedClosed:
            raise StopAsyncIteration from None
