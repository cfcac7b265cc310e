"""A certificate authority for a test, and certificates of it (extra `certificates`)."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_HOUR = dt.timedelta(hours=1)
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate with its key; PEM."""

    chain_pem: bytes
    key_pem: bytes = field(repr=False)


class Authority:
    """An authority whose root is valid for a day; made by a test, and used by it alone."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test root")])
        public_key = self._key.public_key()
        root = (
            self._builder(self._name, public_key)
            .not_valid_after(dt.datetime.now(dt.UTC) + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.root_pem = root.public_bytes(serialization.Encoding.PEM)

    def issue(self, *names: str, expired: bool = False) -> Issued:
        """Issue a certificate for DNS names, IP addresses or URIs; it is valid for an hour."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        alternative = x509.SubjectAlternativeName([_general_name(each) for each in names])
        certificate = (
            self._builder(x509.Name([]), key.public_key())
            .not_valid_after(now - _HOUR if expired else now + _HOUR)
            .add_extension(alternative, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        key_pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Issued(
            chain_pem=certificate.public_bytes(serialization.Encoding.PEM), key_pem=key_pem
        )

    def _builder(
        self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(dt.datetime.now(dt.UTC) - _DAY)
        )


def _general_name(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
