"""Certificates of a server and a client, generated for a test."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from xds_server import server_context


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


class Pki:
    """A root, a server certificate and a client certificate."""

    def __init__(self, directory: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
        self.directory = directory
        self.root = self._signed("root", self._key.public_key(), ca=True)
        self.root_pem = self.root.public_bytes(serialization.Encoding.PEM)
        self.server_chain, self.server_key = self.issue("server", x509.DNSName("localhost"))
        self.client_chain, self.client_key = self.issue(
            "client", x509.UniformResourceIdentifier("spiffe://mesh/ns/a/sa/b")
        )

    def _signed(
        self, name: str, key: Any, *, ca: bool = False, san: x509.GeneralName | None = None
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if ca:
            builder = builder.add_extension(_signs_certificates(), critical=True)
        if san is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([san]), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def issue(self, name: str, san: x509.GeneralName) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, key.public_key(), san=san)
        chain_path, key_path = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        chain_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return chain_path, key_path

    def server_context(self) -> ssl.SSLContext:
        return server_context(
            certificate_chain=self.server_chain,
            private_key=self.server_key,
            client_roots=self.root_pem,
        )

    def credentials(self, *, with_certificate: bool) -> grpc.ChannelCredentials:
        if not with_certificate:
            return grpc.ssl_channel_credentials(self.root_pem)
        return grpc.ssl_channel_credentials(
            self.root_pem, self.client_key.read_bytes(), self.client_chain.read_bytes()
        )
