"""Whether certificates, keys and roots can be used: Envoy refuses secrets that can't.

No message has anything of a value.
"""

from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import ocsp

_LEAST_RSA_BITS = 2048
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


def wrong_pair(chain: bytes, key: bytes) -> tuple[bool, str] | None:
    """Return what is wrong with a certificate chain and its key, and whether it is the key.

    None if they fit.
    """
    try:
        leaf = x509.load_pem_x509_certificates(chain)[0]
        of_certificate = leaf.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
    except (ValueError, IndexError, UnsupportedAlgorithm):
        return False, "holds no certificate in PEM"
    try:
        private = load_pem_private_key(key, password=None)
    except TypeError:
        return True, "is a key with a passphrase, which can't be used"
    except (ValueError, UnsupportedAlgorithm):
        return True, "holds no private key in PEM"
    of_key = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if of_key != of_certificate:
        return True, "is not the key of the certificate beside it"
    return None


def refused_key(pem: bytes) -> str | None:
    """Return why Envoy refuses a valid key; None if it accepts it."""
    match key := load_pem_private_key(pem, password=None):
        case rsa.RSAPrivateKey() if key.key_size < _LEAST_RSA_BITS:
            return f"is an RSA key of less than {_LEAST_RSA_BITS} bits, which Envoy refuses"
        case ec.EllipticCurvePrivateKey() if not isinstance(key.curve, _CURVES):
            return "is a key of another curve than P-256, P-384 and P-521"
        case rsa.RSAPrivateKey() | ec.EllipticCurvePrivateKey():
            return None
        case _:
            return "is neither an RSA key nor one of an elliptic curve"


@lru_cache(maxsize=1024)
def wrong_roots(roots: bytes) -> str | None:
    """Return what is wrong with the certificates of authorities, if anything."""
    try:
        x509.load_pem_x509_certificates(roots)
    except (ValueError, UnsupportedAlgorithm):
        return "holds no certificates in PEM"
    return None


def wrong_revocations(lists: bytes) -> str | None:
    """Return what is wrong with lists of revoked certificates, if anything."""
    try:
        x509.load_pem_x509_crl(lists)
    except (ValueError, UnsupportedAlgorithm):
        return "holds no list of revoked certificates in PEM"
    return None


def wrong_staple(chain: bytes, staple: bytes) -> str | None:
    """Return what is wrong with an answer of OCSP for a usable certificate, if anything."""
    leaf = x509.load_pem_x509_certificates(chain)[0]
    try:
        serial = ocsp.load_der_ocsp_response(staple).serial_number
    except (ValueError, UnsupportedAlgorithm):
        return "holds no answer of OCSP in DER"
    return None if serial == leaf.serial_number else "is about another certificate"
