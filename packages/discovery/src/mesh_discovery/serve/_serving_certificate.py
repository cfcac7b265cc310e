"""The certificate of the secure port, signed by the control plane's own CA and renewed."""

import logging
import random
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from cryptography import x509

from mesh_ca import CaError
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from xds_server import server_context

log = logging.getLogger(__name__)


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
    """A certificate, for which names, and until when (Unix seconds)."""

    context: ssl.SSLContext
    names: tuple[str, ...]
    expires: float


class ServingCertificate:
    """The newest certificate of the secure port; made by `serving_certificate`."""

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
        """Renew at half of what is left, for ever; a failure keeps the certificate there is."""
        while True:
            await clock.sleep(max((self._newest.expires - clock.now()) / 2, 1.0))
            for delay in Backoff(initial_s=1, maximum_s=60).delays(random.Random()):
                try:
                    self.issue()
                    break
                except CaError as error:
                    log.error(
                        "serving certificate not renewed",
                        extra={"reason": str(error), "again_in_s": delay},
                    )
                    await clock.sleep(delay)


def _issued(authority: CertificateIssuer, names: tuple[str, ...], lifetime: timedelta) -> _Issued:
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
        context=_context(key_pem, chain_pem, authority.root_pem),
        names=names,
        expires=leaf.not_valid_after_utc.timestamp(),
    )


def _context(key_pem: bytes, chain_pem: bytes, root_pem: bytes) -> ssl.SSLContext:
    # The ssl module reads keys from files only: one that no one else can open, for a moment.
    with tempfile.TemporaryDirectory(prefix="mesh-discovery-") as directory:
        chain, key = Path(directory, "chain.pem"), Path(directory, "key.pem")
        chain.write_bytes(chain_pem)
        key.touch(mode=0o600)
        key.write_bytes(key_pem)
        context = server_context(certificate_chain=chain, private_key=key, client_roots=root_pem)
    # What Python adds to these for TLS 1.2, CBC with SHA-2, no client of ours needs.
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    return context


@asynccontextmanager
async def serving_certificate(
    authority: CertificateIssuer,
    *,
    names: Callable[[], Sequence[str]],
    lifetime: timedelta,
    on_issued: Callable[[float], None] = lambda _: None,
    clock: Clock | None = None,
) -> AsyncIterator[ServingCertificate]:
    """Issue a certificate and renew it while the block runs; raises CaError if the first fails.

    names: those that are wanted now. on_issued: told when each certificate expires, in Unix
    seconds.
    """

    def issue() -> _Issued:
        issued = _issued(authority, tuple(names()), lifetime)
        on_issued(issued.expires)
        return issued

    certificate = ServingCertificate(issue(), issue, names=names)
    renewing = certificate.renew(clock or SystemClock())
    async with in_background(renewing, name="serving certificate"):
        yield certificate
