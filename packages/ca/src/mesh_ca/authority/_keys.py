"""The types of key that this authority signs with, and certifies."""

import hashlib
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import NamedTuple, assert_never

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

_MIN_RSA_BITS = 2048
_MAX_RSA_BITS = 8192  # verifying takes time by the square of the size
_MIN_RSA_EXPONENT = 65537  # RFC 8017 allows 3; NIST SP 800-56B and every key generator do not
_MAX_RSA_EXPONENT = 2**32
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


class KeyType(StrEnum):
    """The type of a key to make."""

    P256 = "P256"
    P384 = "P384"
    RSA_2048 = "RSA_2048"
    RSA_3072 = "RSA_3072"
    RSA_4096 = "RSA_4096"


def new_key(key_type: KeyType) -> SigningKey:
    """Make a private key."""
    match key_type:
        case KeyType.P256:
            return ec.generate_private_key(ec.SECP256R1())
        case KeyType.P384:
            return ec.generate_private_key(ec.SECP384R1())
        case KeyType.RSA_2048 | KeyType.RSA_3072 | KeyType.RSA_4096:
            bits = int(key_type.removeprefix("RSA_"))
            return rsa.generate_private_key(public_exponent=65537, key_size=bits)
        case _:
            assert_never(key_type)


class EncodedKey(NamedTuple):
    """A public key and its DER SubjectPublicKeyInfo, which is encoded once for all uses."""

    key: PublicKey
    der: bytes

    @classmethod
    def encode(cls, key: PublicKey) -> "EncodedKey":
        """Encode a key."""
        return cls(key, _der_of(key))

    def sha256(self) -> str:
        """Return the SHA-256 of the encoded key, hexadecimal."""
        return hashlib.sha256(self.der).hexdigest()


def public_key_sha256(key: PublicKeyTypes) -> str:
    """Return the SHA-256 of a key's DER SubjectPublicKeyInfo, hexadecimal."""
    return hashlib.sha256(_der_of(key)).hexdigest()


def _der_of(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


class UnacceptableKey(ValueError):
    """A key of a type or size that is not accepted; the text is a noun phrase with the reason."""


def accepted_public_key(key: PublicKeyTypes) -> PublicKey:
    """Return `key` if its type and size are accepted, else raise UnacceptableKey."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, _CURVES):
            raise UnacceptableKey(
                f"key on curve {key.curve.name}, P-256, P-384 and P-521 are accepted"
            )
        return key
    if isinstance(key, rsa.RSAPublicKey):
        if not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
            raise UnacceptableKey(
                f"RSA key of {key.key_size} bits, {_MIN_RSA_BITS} to {_MAX_RSA_BITS} are accepted"
            )
        exponent = key.public_numbers().e
        if not _MIN_RSA_EXPONENT <= exponent < _MAX_RSA_EXPONENT or exponent % 2 == 0:
            raise UnacceptableKey("RSA key with an unusual public exponent, 65537 is right")
        return key
    raise UnacceptableKey("key of an unknown kind, RSA and ECDSA keys are accepted")


def accepted_signing_key(key: PrivateKeyTypes) -> SigningKey:
    """Return `key` if its type and size are accepted, else raise UnacceptableKey."""
    if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        accepted_public_key(key.public_key())
        return key
    raise UnacceptableKey("key of an unknown kind, RSA and ECDSA keys are accepted")


def signature_hash(key: SigningKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512:
    """Return the hash for a signing key: as strong as its curve, SHA-256 for RSA."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        if isinstance(key.curve, ec.SECP384R1):
            return hashes.SHA384()
        if isinstance(key.curve, ec.SECP521R1):
            return hashes.SHA512()
    return hashes.SHA256()


def signature_function(key: SigningKey) -> Callable[[bytes], bytes]:
    """Return a function that signs bytes with `key`, as certificates are signed."""
    if isinstance(key, rsa.RSAPrivateKey):
        return partial(key.sign, padding=padding.PKCS1v15(), algorithm=signature_hash(key))
    return partial(key.sign, signature_algorithm=ec.ECDSA(signature_hash(key)))


def key_pem(key: SigningKey) -> bytes:
    """Return a private key as unencrypted PKCS#8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
