"""Describes certificates, for the status: never a key."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache

from cryptography import x509

import certclient

_MOST = 100
"""Of the roots of a bundle that a person is shown."""


@lru_cache(maxsize=4)
def described_chain(pem: bytes) -> tuple[Mapping[str, object], ...]:
    """Return each certificate of a PEM text, in its order; none if it can't be read."""
    try:
        found = x509.load_pem_x509_certificates(pem)[:_MOST]
        return tuple(
            {
                "subject": each.subject.rfc4514_string(),
                "issuer": each.issuer.rfc4514_string(),
                "serial": f"{each.serial_number:x}",
                "not_before": each.not_valid_before_utc.isoformat(),
                "not_after": each.not_valid_after_utc.isoformat(),
                "names": list(_names(each)),
                "key_id": _key_id(each),
            }
            for each in found
        )
    except (ValueError, KeyError, x509.InvalidVersion, x509.DuplicateExtension):
        return ()


def _names(certificate: x509.Certificate) -> Iterator[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return
    for name in found.value:
        yield str(name.value)


def _key_id(certificate: x509.Certificate) -> str:
    return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest.hex()


def outage_at(held: certclient.Certificate) -> datetime:
    """Return when the chain or the last root ends: then no peer accepts the workload."""
    try:
        roots = x509.load_pem_x509_certificates(held.trust_bundle_pem)
    except ValueError:
        return held.not_after
    return min(held.not_after, max(root.not_valid_after_utc for root in roots))
