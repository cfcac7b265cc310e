"""An issuer of certificates for localhost, as secrets."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mesh_sds import TlsCertificate, TrustBundle


@dataclass(frozen=True)
class Issued:
    """A certificate as a secret, and what a test knows it by."""

    secret: TlsCertificate
    serial: int


class Issuer:
    """A root that signs certificates for localhost."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"root {id(self._key)}")]
        )
        self._root = self._sign(self._name, self._key.public_key(), ca=True)

    @property
    def bundle(self) -> TrustBundle:
        return TrustBundle(roots_pem=self._root.public_bytes(Encoding.PEM))

    def bundle_revoking(self, *serials: int) -> TrustBundle:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - timedelta(hours=1))
            .next_update(now + timedelta(hours=1))
            .add_extension(x509.CRLNumber(1), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(serial)
                .revocation_date(now - timedelta(minutes=1))
                .build()
            )
        crl = builder.sign(self._key, hashes.SHA256())
        return TrustBundle(roots_pem=self.bundle.roots_pem, crl_pem=crl.public_bytes(Encoding.PEM))

    def issue(self) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(x509.Name([]), key.public_key(), ca=False)
        return Issued(
            secret=TlsCertificate(
                chain_pem=certificate.public_bytes(Encoding.PEM),
                private_key_pem=key.private_bytes(
                    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
                ),
            ),
            serial=certificate.serial_number,
        )

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.KeyUsage(
                    digital_signature=not ca,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=ca,
                    crl_sign=ca,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
        )
        if not ca:
            names = x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            )
            builder = builder.add_extension(names, critical=True)
        return builder.sign(self._key, hashes.SHA256())
