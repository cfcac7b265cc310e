"""Any bytes as a key set, as a signing request and as the list of what was revoked."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mesh_ca import CsrError, StorageError
from mesh_ca.authority._csr import parse_csr
from mesh_ca.callers._jwks import parse_jwks
from mesh_ca.revocation._revoked import from_json


def check(data: bytes) -> None:
    """Each is read, or refused with the one error that its callers know."""
    kind, content = data[:1], data[1:]
    if kind == b"k":
        with suppress(StorageError):
            assert parse_jwks(content)
    elif kind == b"r":
        with suppress(ValueError, TypeError, KeyError, OverflowError, RecursionError):
            from_json(content)
    elif kind == b"d":  # DER, so that base64 is not in the way
        text = base64.encodebytes(content)
        label = b"CERTIFICATE REQUEST"
        _request(b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, text, label))
    else:
        _request(content)


def _request(pem: bytes) -> None:
    with suppress(CsrError):
        parse_csr(pem)


def originals() -> Iterator[bytes]:
    """A key set with each type of key, requests of each type of key, a list."""
    numbers = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    modulus = rsa.generate_private_key(65537, 2048).public_key().public_numbers().n

    def text(number: int, size: int) -> str:
        return base64.urlsafe_b64encode(number.to_bytes(size, "big")).decode().rstrip("=")

    keys = [
        {
            "kty": "EC",
            "crv": "P-256",
            "kid": "a",
            "x": text(numbers.x, 32),
            "y": text(numbers.y, 32),
        },
        {
            "kty": "RSA",
            "kid": "b",
            "n": text(modulus, 256),
            "e": "AQAB",
            "alg": "RS256",
            "use": "sig",
        },
    ]
    for each in ([*keys], keys[:1], keys[1:]):
        yield b"k" + json.dumps({"keys": each}).encode()
    for key in (ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)):
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
        request = x509.CertificateSigningRequestBuilder().subject_name(name)
        request = request.add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier("spiffe://td/ns/a/sa/b")]),
            critical=False,
        )
        signed = request.sign(key, hashes.SHA256())
        yield b"p" + signed.public_bytes(serialization.Encoding.PEM)
        yield b"d" + signed.public_bytes(serialization.Encoding.DER)
    yield (
        b'r{"version":1,"number":3,"revoked":[{"serial":"ff","at":1,"until":2,"reason":"keyCompromise"'
        b'}],"identities":{"spiffe://td/ns/a/sa/b":1},"keys":["00"]}'
    )
