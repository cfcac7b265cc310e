"""Decides whether a certificate of an earlier run is good enough to go on with."""

from datetime import datetime
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from certclient._errors import CertificateRejected
from certclient.files._stored_certificate import StoredCertificate
from certclient.x509._acceptance import accept
from certclient.x509._certificate import Certificate
from certclient.x509._key_types import KeyEncoding, KeyType
from certclient.x509._keys import PrivateKey
from mesh_identity import SpiffeId


class EarlierCertificate(Protocol):
    """A place where the certificate of an earlier run may be."""

    async def fetch(self) -> StoredCertificate | None:
        """Return the certificate, None if there is none.

        Raises CertClientError with the reason why there is one that must not be used.
        """


def taken_up(
    found: StoredCertificate,
    *,
    spiffe_id: SpiffeId,
    key_type: KeyType,
    key_encoding: KeyEncoding,
    now: datetime,
) -> Certificate:
    """Make a certificate of a stored one; raises CertificateRejected with the reason.

    It is checked as an answer of the authority is: by its key, name, times, roots and TLS.
    """
    key = _key(found.private_key_pem)
    kind = _key_type(key)
    if kind is not key_type:
        said = kind or "another kind"
        raise CertificateRejected(f"its key is of type {said}, and {key_type} is wanted now")
    return accept(
        (found.chain_pem, found.trust_bundle_pem),
        key=key,
        spiffe_id=spiffe_id,
        now=now,
        key_encoding=key_encoding,
    )


def _key(pem: bytes) -> PrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateRejected("its key cannot be read") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise CertificateRejected("its key is neither an RSA nor an EC key")
    return key


def _key_type(key: PrivateKey) -> KeyType | None:
    if isinstance(key, rsa.RSAPrivateKey):
        sizes = {2048: KeyType.RSA_2048, 3072: KeyType.RSA_3072, 4096: KeyType.RSA_4096}
        return sizes.get(key.key_size)
    curves = {"secp256r1": KeyType.P256, "secp384r1": KeyType.P384}
    return curves.get(key.curve.name)
