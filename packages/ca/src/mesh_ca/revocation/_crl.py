"""Builds and signs a certificate revocation list (RFC 5280 section 5)."""

from datetime import datetime, timedelta

from cryptography import x509

from mesh_ca._errors import StorageError
from mesh_ca.authority._keys import signature_hash
from mesh_ca.authority._profile import CLOCK_SKEW
from mesh_ca.authority._signer import CA_CERT, Signer, key_id, may_sign_lists
from mesh_ca.revocation._revoked import Entry, Reason


def signed_list(
    signer: Signer, entries: tuple[Entry, ...], *, number: int, now: datetime, lifetime: timedelta
) -> x509.CertificateRevocationList:
    """Return a list of `entries` that is valid for `lifetime`; raises StorageError."""
    if not may_sign_lists(signer.certificate):
        raise StorageError(f"the key usage of {CA_CERT} lacks cRLSign, which a list needs")
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(signer.certificate.subject)
        .last_update(now - CLOCK_SKEW)
        .next_update(now + lifetime)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(key_id(signer.certificate), critical=False)
    )
    for entry in entries:
        revoked = (
            x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(entry.at)
        )
        if entry.reason is not Reason.unspecified:  # RFC 5280 section 5.3.1: then left out
            revoked = revoked.add_extension(x509.CRLReason(entry.reason), critical=False)
        builder = builder.add_revoked_certificate(revoked.build())
    return builder.sign(signer.key, signature_hash(signer.key))
