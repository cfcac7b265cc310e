"""How the certificates of this authority look: pure functions from values to certificates.

Leaves follow Istio's profile with one correction. Istio sets keyEncipherment on every leaf; RFC
8813 section 3 forbids it with an elliptic-curve key, and linters reject it, so only leaves with an
RSA key bear it here.
"""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mesh_ca._keys import SigningKey, signature_hash

CLOCK_SKEW = timedelta(minutes=2)
"""How far notBefore lies in the past, for peers whose clock is behind."""

_MAX_NAME_CHARACTERS = 64  # ub-common-name and ub-organization-name of RFC 5280, appendix A

_NOT_A_CA = x509.BasicConstraints(ca=False, path_length=None)
_LEAF_PURPOSES = x509.ExtendedKeyUsage(
    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
)


def _key_usage(
    *, digital_signature: bool = False, key_encipherment: bool = False, ca: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=key_encipherment,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


_EC_LEAF_USAGE = _key_usage(digital_signature=True)
_RSA_LEAF_USAGE = _key_usage(digital_signature=True, key_encipherment=True)
_CA_USAGE = _key_usage(ca=True)


def whole_second(when: float) -> datetime:
    """A Unix time as certificates can express it."""
    return datetime.fromtimestamp(int(when), UTC)


def leaf_certificate(
    public_key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    names: x509.SubjectAlternativeName,
    *,
    common_name: str | None,
    serial: int,
    not_before: datetime,
    not_after: datetime,
    issuer: x509.Certificate,
    issuer_key: SigningKey,
    issuer_key_id: x509.AuthorityKeyIdentifier,
) -> x509.Certificate:
    """A workload's or server's certificate.

    `common_name` is set only if it fits; without one the subject is empty and the alternative
    name critical, as RFC 5280 section 4.2.1.6 has it.
    """
    attributes = []
    if common_name is not None and len(common_name) <= _MAX_NAME_CHARACTERS:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    usage = _RSA_LEAF_USAGE if isinstance(public_key, rsa.RSAPublicKey) else _EC_LEAF_USAGE
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(issuer.subject)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(usage, critical=True)
        .add_extension(_LEAF_PURPOSES, critical=False)
        .add_extension(_NOT_A_CA, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(issuer_key_id, critical=False)
        .add_extension(names, critical=not attributes)
        .sign(issuer_key, signature_hash(issuer_key))
    )


def root_certificate(
    key: SigningKey, *, organization: str, serial: int, now: datetime, lifetime: timedelta
) -> x509.Certificate:
    """A self-signed root."""
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization[:_MAX_NAME_CHARACTERS])]
    )
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_CA_USAGE, critical=True)
        .add_extension(key_id, critical=False)
        .sign(key, signature_hash(key))
    )
