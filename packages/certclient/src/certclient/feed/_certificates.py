"""The newest certificate and the changes to come, as subscribers see them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime
from typing import Self

import msgspec

from certclient._errors import FeedClosed, NoCertificate, RenewalFailed
from certclient.feed._feed import Feed
from certclient.x509._certificate import Certificate

FIRST_WITHIN_S = 60.0
"""How long the first certificate is waited for unless the caller says otherwise."""


class RotationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of rotation, as one coherent snapshot.

    certificate: the valid one; None before the first and after the last expired.
    renews_at: when renewal is due; None without a certificate.
    last_error: why the newest attempt failed; None after a success.
    refused: the newest attempt got an answer, and it was a refusal or not usable: the same request
        will probably fail again.
    attempts: the number of attempts so far.
    failed_attempts: the number of failures since the last success.
    taken_up: the certificate is of an earlier run of the program.
    not_taken_up: why the certificate of an earlier run is not used; None if it is, or there was
        none.
    """

    certificate: Certificate | None = None
    renews_at: datetime | None = None
    last_error: str | None = None
    refused: bool = False
    attempts: int = 0
    failed_attempts: int = 0
    taken_up: bool = False
    not_taken_up: str | None = None


class Certificates:
    """Gives subscribers the newest certificate, and each change to it."""

    def __init__(self, feed: Feed[RotationStatus], *, on_request: Callable[[], None]) -> None:
        self._feed = feed
        self._on_request = on_request

    @property
    def status(self) -> RotationStatus:
        """The whole state, as one snapshot."""
        return self._feed.value

    @property
    def latest(self) -> Certificate | None:
        """The valid certificate; None before the first and after the last expired."""
        return self._feed.value.certificate

    @property
    def last_error(self) -> str | None:
        """Why the newest attempt failed; None after a success."""
        return self._feed.value.last_error

    async def wait_for_first(self, *, timeout_s: float | None = FIRST_WITHIN_S) -> Certificate:
        """Wait until there is a valid certificate.

        timeout_s: how long; None for ever.

        Raises:
            NoCertificate: there was none in that time; the text has the reason of the newest
                attempt that failed.
            FeedClosed: rotation stopped before.
        """
        version = self._feed.version
        try:
            async with asyncio.timeout(timeout_s):
                while (certificate := self.latest) is None:
                    version = await self._feed.wait_newer(version)
        except TimeoutError:
            reason = self.last_error or "the issuer has not answered yet"
            raise NoCertificate(f"no certificate within {timeout_s:g} s: {reason}") from None
        return certificate

    def changes(self) -> "CertificateChanges":
        """Iterate over the certificates: the newest first, if there is one, then each new one.

        None means that the certificate expired and there is no other. A slow reader gets the newest
        only, and always the last. The iteration ends when rotation stops.
        """
        return CertificateChanges(self._feed)

    async def statuses(self) -> AsyncIterator[RotationStatus]:
        """Yield the status after each attempt, successful or failed.

        A slow reader gets the newest only, and always the last. Ends when rotation stops.
        """
        version = -1
        with suppress(FeedClosed):
            while True:
                version = await self._feed.wait_newer(version)
                yield self._feed.value

    def request_renewal(self) -> None:
        """Request a new certificate without waiting for it; joins an attempt that is under way."""
        self._on_request()

    async def renew(self) -> Certificate:
        """Request a new certificate and wait for it; raises RenewalFailed with the reason.

        All callers that request one while an attempt is under way share its outcome.
        """
        before = self._feed.value.attempts
        version = self._feed.version
        self._on_request()
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
