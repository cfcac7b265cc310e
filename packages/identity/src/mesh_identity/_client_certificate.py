"""Reads a client certificate that may not exist yet, may be half replaced, or may have expired.

A server refuses the whole connection if it is shown a certificate that it can't verify, so only one
that is valid now, and belongs to its key, is shown.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from mesh_filewatch import fetch_bytes

_MAX_BYTES = 1 << 20


class NoClientCertificate(Exception):
    """No certificate that can be shown; str() is the reason, as the rest of a sentence after the
    file's name.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A certificate to show to a server, and its key; PEM, leaf first."""

    chain_pem: bytes
    key_pem: bytes = field(repr=False)


async def fetch_client_certificate(certificate: Path, key: Path) -> ClientCertificate:
    """Read a chain and its key; raises NoClientCertificate unless they fit and are valid now."""
    try:
        chain_pem = await fetch_bytes(certificate, max_bytes=_MAX_BYTES)
        key_pem = await fetch_bytes(key, max_bytes=_MAX_BYTES)
    except FileNotFoundError as error:
        missing = str(error.filename)
        raise NoClientCertificate(
            "does not exist" if missing == str(certificate) else f"has no key at {missing}"
        ) from None
    except OSError as error:
        raise NoClientCertificate(f"or its key cannot be read: {error.strerror}") from error
    if (fault := _fault(chain_pem, key_pem, now=datetime.now(UTC))) is not None:
        raise NoClientCertificate(fault)
    return ClientCertificate(chain_pem=chain_pem, key_pem=key_pem)


def _fault(chain_pem: bytes, key_pem: bytes, *, now: datetime) -> str | None:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    try:
        leaf = x509.load_pem_x509_certificates(chain_pem)[0]
        of_leaf = leaf.public_key().public_bytes(*form)
        of_key = load_pem_private_key(key_pem, password=None).public_key().public_bytes(*form)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        return "or its key is not in PEM"
    if of_leaf != of_key:
        return "does not belong to its key"
    if now >= leaf.not_valid_after_utc:
        return "has expired"
    return "is not valid yet" if now < leaf.not_valid_before_utc else None
