"""TLS clients for tests: with a certificate of the mesh, of another authority, or with none."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mesh_ca import Authority, load_or_create_authority
from mesh_local import RunningMesh
from mesh_testkit import PATIENCE_S


class ForeignAuthority:
    """An authority of the same trust domain that the mesh knows nothing of."""

    def __init__(self, directory: Path, trust_domain: str) -> None:
        self._authority = load_or_create_authority(directory, trust_domain=trust_domain)

    @property
    def root_pem(self) -> bytes:
        return self._authority.root_pem

    def client_context(self, directory: Path, identity: str) -> ssl.SSLContext:
        """A client whose certificate claims an identity of the mesh."""
        return client_context(self._authority, directory, identity)


def mesh_client_context(mesh: RunningMesh, directory: Path, identity: str) -> ssl.SSLContext:
    """A client with a certificate of the mesh's own authority."""
    authority = load_or_create_authority(
        mesh.state.ca, trust_domain=mesh.plan.file.mesh.trust_domain
    )
    return client_context(authority, directory, identity)


def client_context(authority: Authority, directory: Path, identity: str) -> ssl.SSLContext:
    """A TLS client with a new certificate; the server's is not checked, but looked at."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    issued = authority.sign(
        request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        identities=[identity],
        lifetime=timedelta(minutes=10),
    )
    return _context(directory, key, issued.chain_pem)


def _context(
    directory: Path, key: ec.EllipticCurvePrivateKey, chain: Sequence[bytes]
) -> ssl.SSLContext:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (directory / "chain.pem").write_bytes(b"".join(chain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(directory / "chain.pem", directory / "key.pem")
    return context


async def presented_certificate(host: str, port: int, context: ssl.SSLContext) -> x509.Certificate:
    """Make a TLS handshake, and return the certificate that the server presents."""
    async with asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="")
        try:
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.close()
            with suppress(OSError):  # a server that does not like our certificate says so late
                await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


async def presented_serial(host: str, port: int, context: ssl.SSLContext) -> str:
    """Make a TLS handshake, and return the serial of the certificate that the server presents."""
    return f"{(await presented_certificate(host, port, context)).serial_number:x}"
