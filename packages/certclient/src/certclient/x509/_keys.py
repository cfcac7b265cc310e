"""Private keys and the signing requests signed with them."""

import asyncio
from typing import assert_never

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certclient.x509._key_types import KeyEncoding, KeyType
from mesh_identity import SpiffeId

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


async def new_private_key(key_type: KeyType) -> PrivateKey:
    """Generate a key. An RSA key takes up to seconds and is generated in a thread."""
    match key_type:
        case KeyType.P256:
            return ec.generate_private_key(ec.SECP256R1())
        case KeyType.P384:
            return ec.generate_private_key(ec.SECP384R1())
        case KeyType.RSA_2048:
            return await _new_rsa_key(2048)
        case KeyType.RSA_3072:
            return await _new_rsa_key(3072)
        case KeyType.RSA_4096:
            return await _new_rsa_key(4096)
        case _:
            assert_never(key_type)


async def _new_rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return await asyncio.to_thread(rsa.generate_private_key, 65537, bits)


def private_key_pem(key: PrivateKey, encoding: KeyEncoding) -> bytes:
    """Write the key as PEM, not encrypted."""
    formats = {
        KeyEncoding.PKCS8: serialization.PrivateFormat.PKCS8,
        KeyEncoding.TRADITIONAL: serialization.PrivateFormat.TraditionalOpenSSL,
    }
    return key.private_bytes(
        serialization.Encoding.PEM, formats[encoding], serialization.NoEncryption()
    )


def signing_request(key: PrivateKey, spiffe_id: SpiffeId) -> bytes:
    """Make a certificate signing request as PEM.

    The subject is empty and the identity is the one URI among the alternative names, as the
    X.509-SVID standard (section 2) has it.
    """
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(str(spiffe_id))])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(names, critical=True)
        .sign(key, hashes.SHA256())
    )
    return request.public_bytes(serialization.Encoding.PEM)
