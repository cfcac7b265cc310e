"""The certificate that the agent stores, for when it is started again while the authority is away.

The agent's root file and the roots that it has learned decide whether a stored certificate still
counts: an operator who takes a root out of the file has to reach these too.
"""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

import certclient
from mesh_filewatch import fetch_bytes
from mesh_identity import LearnedRoots

_MAX_ROOT_BYTES = 1 << 20


class TrustedOnly:
    """A stored certificate with those of its roots that the agent trusts now."""

    def __init__(
        self, file: certclient.CertificateFile, root_file: Path, learned: LearnedRoots
    ) -> None:
        self._file = file
        self._root_file = root_file
        self._learned = learned

    async def fetch(self) -> certclient.StoredCertificate | None:
        """Return the certificate; None if there is none. Raises CertClientError with the reason."""
        stored = await self._file.fetch()
        if stored is None:
            return None
        try:
            file_pem = await fetch_bytes(self._root_file, max_bytes=_MAX_ROOT_BYTES)
        except OSError as error:
            raise certclient.SourceUnavailable(
                f"{self._root_file}, by which its roots are checked, cannot be read:"
                f" {error.strerror}"
            ) from error
        trusted = {*_roots(file_pem), *_roots(self._learned.trusted_beside(file_pem))}
        roots = _roots(stored.trust_bundle_pem)
        still = [root for root in roots if root in trusted]
        if not still:
            raise certclient.CertificateRejected(
                f"none of its roots is in {self._root_file} or learned from the control plane"
            )
        return stored._replace(
            trust_bundle_pem=b"".join(root.public_bytes(Encoding.PEM) for root in still),
            # Roots that came or went since are the authority's to confirm.
            is_current=stored.is_current and set(roots) == trusted,
        )


def _roots(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []
