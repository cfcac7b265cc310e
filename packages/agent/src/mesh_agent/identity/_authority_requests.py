"""Counts the requests to the certificate authority, for the metrics."""

import time
from collections.abc import Callable
from datetime import timedelta

import certclient


class AuthorityRequests:
    """The numbers of requests to the authority.

    requests, failed: those that have ended. retries: tries of a request after its first.
    seconds: spent on all requests.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.failed = 0
        self.retries = 0
        self.seconds = 0.0

    def count_retry(self) -> None:
        """Count a try after the first."""
        self.retries += 1


class CountedAuthority:
    """Signs by another authority, and counts its requests."""

    def __init__(
        self,
        authority: certclient.CertificateAuthority,
        counts: AuthorityRequests,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._counts = counts
        self._now_s = now_s

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        """Return the chain that the other authority gives."""
        begun_s, failed = self._now_s(), True
        try:
            chain = await self._authority.sign(csr_pem, lifetime=lifetime)
            failed = False
            return chain
        finally:
            self._counts.requests += 1
            self._counts.failed += failed
            self._counts.seconds += self._now_s() - begun_s
