"""Whether certificates, keys and roots can be used: Envoy refuses secrets that can't.

No message has anything of a value.
"""

from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)


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


@lru_cache(maxsize=1024)
def wrong_roots(roots: bytes) -> str | None:
    """Return what is wrong with the certificates of authorities, if anything."""
    try:
        x509.load_pem_x509_certificates(roots)
    except (ValueError, UnsupportedAlgorithm):
        return "holds no certificates in PEM"
    return None
