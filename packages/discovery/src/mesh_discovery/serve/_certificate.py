"""The certificate of the secure port, signed by our own CA and renewed while we run."""

import logging
import random
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from cryptography import x509

from mesh_ca import CaError
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from xds_server import server_context

log = logging.getLogger(__name__)


class CertificateIssuer(Protocol):
    """What signs the certificate: `mesh_ca.Authority`."""

    @property
    def root_pem(self) -> bytes:
        """The roots that client certificates are checked against, PEM."""
        ...

    def issue_server_certificate(
        self, dns_names: Sequence[str], lifetime: timedelta
    ) -> tuple[bytes, bytes]:
        """Return key and chain, PEM; raises CaError."""
        ...


class ServingCertificate:
    """Always has a TLS context for the next handshake; made by `keeping_certificate`."""

    def __init__(
        self,
        authority: CertificateIssuer,
        *,
        names: Callable[[], Sequence[str]],
        lifetime: timedelta,
        on_issued: Callable[[float], None],
    ) -> None:
        self._authority = authority
        self._names = names
        self._lifetime = lifetime
        self._on_issued = on_issued
        self._issued_for: tuple[str, ...] = ()
        self._context: ssl.SSLContext | None = None
        self._expires = 0.0

    def context(self) -> ssl.SSLContext:
        """Return the newest context."""
        if self._context is None:
            raise RuntimeError("no certificate was issued yet")
        return self._context

    def refresh(self) -> None:
        """Issue anew if other names are wanted by now; raises CaError."""
        if tuple(self._names()) != self._issued_for:
            self.issue()

    def reissue(self) -> None:
        """Issue anew if one was issued: what vouches for it has changed. Raises CaError."""
        if self._context is not None:
            self.issue()

    def issue(self) -> float:
        """Issue a certificate; returns when it expires, in Unix seconds. Raises CaError."""
        names = tuple(self._names())
        key_pem, chain_pem = self._authority.issue_server_certificate(names, self._lifetime)
        self._context = _context(key_pem, chain_pem, self._authority.root_pem)
        self._issued_for = names
        leaf = x509.load_pem_x509_certificate(chain_pem)
        self._expires = leaf.not_valid_after_utc.timestamp()
        self._on_issued(self._expires)
        log.info(
            "serving certificate issued",
            extra={
                "names": names,
                "serial": f"{leaf.serial_number:x}",
                "expires": leaf.not_valid_after_utc.isoformat(),
            },
        )
        return self._expires

    async def renew(self, clock: Clock) -> None:
        """Renew at half of what is left, for ever; a failure keeps the certificate there is."""
        while True:
            await clock.sleep(max((self._expires - clock.now()) / 2, 1.0))
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
async def keeping_certificate(
    certificate: ServingCertificate, *, clock: Clock | None = None
) -> AsyncIterator[ServingCertificate]:
    """Issue a first certificate and keep it fresh; raises CaError if the first can't be had."""
    certificate.issue()
    renewing = certificate.renew(clock or SystemClock())
    async with in_background(renewing, name="serving certificate"):
        yield certificate
