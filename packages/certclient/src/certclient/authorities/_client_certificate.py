"""Reads a client certificate that may not exist yet, or may have expired.

A machine that got a certificate at its installation shows it to the authority. A machine without
one, or with an expired one, is identified by its token instead. So nothing here is an error.
"""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from mesh_filewatch import fetch_bytes

_MAX_BYTES = 1 << 20


async def fetch_client_certificate(
    certificate: Path | None, key: Path | None
) -> tuple[bytes | None, bytes | None]:
    """Read key and chain as PEM; (None, None) unless they belong together and are valid now."""
    if certificate is None or key is None:
        return None, None
    try:
        chain_pem = await fetch_bytes(certificate, max_bytes=_MAX_BYTES)
        key_pem = await fetch_bytes(key, max_bytes=_MAX_BYTES)
        leaf = x509.load_pem_x509_certificates(chain_pem)[0]
        private_key = load_pem_private_key(key_pem, password=None)
        matches = _spki(leaf.public_key()) == _spki(private_key.public_key())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None, None
    now = datetime.now(UTC)
    if not matches or not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        return None, None
    return key_pem, chain_pem


def _spki(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
