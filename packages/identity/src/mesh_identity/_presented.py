"""Describes certificates in errors, so that an operator can tell which one is wrong.

The roots of a mesh often have the same name before and after a replacement, so the description has
the key identifier too. RFC 5280, sections 4.2.1.1 and 4.2.1.2.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from mesh_identity._words import listed, shown

if TYPE_CHECKING:
    from cryptography import x509

_ID_BYTES = 6


class Validity(NamedTuple):
    """From when to when a certificate is valid."""

    not_before: datetime
    not_after: datetime


def validity_of(chain_pem: Sequence[bytes]) -> Validity | None:
    """Return when all certificates of a chain are valid; None if it is empty or can't be read."""
    from cryptography import x509

    try:
        chain = [x509.load_pem_x509_certificate(each) for each in chain_pem]
    except (ValueError, x509.InvalidVersion):
        return None
    if not chain:
        return None
    return Validity(
        max(each.not_valid_before_utc for each in chain),
        min(each.not_valid_after_utc for each in chain),
    )


def described_issuer(chain_pem: Iterable[bytes]) -> str:
    """Return the issuer of the last certificate of a chain; empty if it can't be read."""
    from cryptography import x509

    try:
        *_, last = (x509.load_pem_x509_certificate(each) for each in chain_pem)
        if last.issuer == last.subject:
            return _described(last)
        key = last.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        name = shown(last.issuer.rfc4514_string())
    except (
        ValueError,
        KeyError,  # a name's unknown tag, in older versions of cryptography
        x509.ExtensionNotFound,
        x509.InvalidVersion,
        x509.DuplicateExtension,
    ):
        return ""
    return f"{name} (key id {(key.key_identifier or b'')[:_ID_BYTES].hex()})"


def described_roots(roots_pem: bytes) -> str:
    """Return name, key id and expiry of each root; empty if they can't be read."""
    from cryptography import x509

    try:
        roots = x509.load_pem_x509_certificates(roots_pem)
        return listed((_described(root) for root in roots), none="")
    except (ValueError, KeyError, x509.InvalidVersion):
        return ""


def _described(root: "x509.Certificate") -> str:
    from cryptography import x509

    try:
        stated = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        key_id = stated.value.digest
    except (x509.ExtensionNotFound, x509.DuplicateExtension):
        key_id = x509.SubjectKeyIdentifier.from_public_key(root.public_key()).digest
    name = shown(root.subject.rfc4514_string())
    until = root.not_valid_after_utc.date().isoformat()
    return f"{name} (key id {key_id[:_ID_BYTES].hex()}, until {until})"
