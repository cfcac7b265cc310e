"""Key material of sorts that an authority of tests does not issue."""

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
_DAY = dt.timedelta(days=1)


def revocation_list() -> bytes:
    """Return an empty list of revoked certificates, PEM."""
    now = dt.datetime.now(dt.UTC)
    crl = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(_NAME)
        .last_update(now - _DAY)
        .next_update(now + _DAY)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return crl.public_bytes(serialization.Encoding.PEM)


def small_rsa_pair() -> tuple[bytes, bytes]:
    """Return a certificate with an RSA key of 1024 bits, and the key; PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - refused
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
