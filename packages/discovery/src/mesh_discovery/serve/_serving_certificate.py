"""The certificate of the secure port, signed by the control plane's own CA and renewed."""

import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from cryptography import x509

from mesh_ca import CaError
from mesh_discovery.settings._connections import SERVING_TLS, ServingTls
from mesh_identity import memory_file
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from xds_server import server_context

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0


class CertificateIssuer(Protocol):
    """Signs server certificates: `mesh_ca.Authority`."""

    @property
    def root_pem(self) -> bytes:
        """The roots that client certificates are checked against, PEM."""
        ...

    def issue_server_certificate(
        self, dns_names: Sequence[str], lifetime: timedelta
    ) -> tuple[bytes, bytes]:
        """Return key and chain, PEM; raises CaError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Issued:
    """A certificate, for which names, when it was issued, and when it counts (Unix seconds)."""

    context: ssl.SSLContext
    names: tuple[str, ...]
    at: float
    begins: float
    expires: float

    def is_due(self, now: float) -> bool:
        """Return whether another one is needed: half of its time is over, or it counts only later.

        The latter is so when a clock that was ahead has been set right.
        """
        return not self.begins <= now < (self.at + self.expires) / 2


class ServingCertificate:
    """The newest certificate of the secure port; created by `serving_certificate`."""

    def __init__(
        self, first: _Issued, issue: Callable[[], _Issued], *, names: Callable[[], Sequence[str]]
    ) -> None:
        self._newest = first
        self._issue = issue
        self._names = names

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for the next handshake."""
        return self._newest.context

    def refresh(self) -> None:
        """Issue anew if other names are wanted by now; raises CaError."""
        if tuple(self._names()) != self._newest.names:
            self.issue()

    def issue(self) -> None:
        """Issue another certificate in place of this one; raises CaError."""
        self._newest = self._issue()

    async def renew(self, clock: Clock) -> None:
        """Renew at half of its time, for ever; a failure keeps the certificate there is."""
        while True:
            # Often, as the time of day may be set, and a suspended machine sleeps no longer for it.
            await clock.sleep(_LOOK_EVERY_S)
            if not self._newest.is_due(clock.now()):
                continue
            for delay in Backoff(initial_s=1, maximum_s=60).delays(random.Random()):
                try:
                    self.issue()
                    break
                except (CaError, OSError) as error:  # OSError: no file descriptor is left
                    log.error(
                        "serving certificate not renewed",
                        extra={"reason": str(error), "again_in_s": delay},
                    )
                    await clock.sleep(delay)


def _issued(
    authority: CertificateIssuer,
    names: tuple[str, ...],
    lifetime: timedelta,
    *,
    tls: ServingTls,
    now: float,
) -> _Issued:
    key_pem, chain_pem = authority.issue_server_certificate(names, lifetime)
    leaf = x509.load_pem_x509_certificate(chain_pem)
    log.info(
        "serving certificate issued",
        extra={
            "names": names,
            "serial": f"{leaf.serial_number:x}",
            "expires": leaf.not_valid_after_utc.isoformat(),
        },
    )
    return _Issued(
        context=_context(key_pem, chain_pem, authority.root_pem, tls),
        names=names,
        at=now,
        begins=leaf.not_valid_before_utc.timestamp(),
        expires=leaf.not_valid_after_utc.timestamp(),
    )


def _context(key_pem: bytes, chain_pem: bytes, root_pem: bytes, tls: ServingTls) -> ssl.SSLContext:
    # The ssl module reads keys from files only.
    with memory_file(key_pem + chain_pem) as name:
        pair = Path(name)
        context = server_context(certificate_chain=pair, private_key=pair, client_roots=root_pem)
    context.minimum_version = tls.oldest
    context.set_ciphers(tls.ciphers)
    return context


@asynccontextmanager
async def serving_certificate(
    authority: CertificateIssuer,
    *,
    names: Callable[[], Sequence[str]],
    lifetime: timedelta,
    tls: ServingTls = SERVING_TLS,
    on_issued: Callable[[float], None] = lambda _: None,
    clock: Clock | None = None,
) -> AsyncIterator[ServingCertificate]:
    """Issue a certificate and renew it while the block runs; raises CaError if the first fails.

    names: those that are wanted now. tls: what is spoken. on_issued: called with the time at which
    each certificate expires, in Unix seconds.
    """
    clock = clock or SystemClock()

    def issue() -> _Issued:
        issued = _issued(authority, tuple(names()), lifetime, tls=tls, now=clock.now())
        on_issued(issued.expires)
        return issued

    certificate = ServingCertificate(issue(), issue, names=names)
    renewing = certificate.renew(clock)
    async with in_background(renewing, name="serving certificate"):
        yield certificate
