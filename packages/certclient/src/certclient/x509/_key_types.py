"""The kinds of private keys, and how they are written."""

from enum import StrEnum


class KeyType(StrEnum):
    """Algorithm and size of the private key."""

    RSA_2048 = "rsa-2048"
    RSA_3072 = "rsa-3072"
    RSA_4096 = "rsa-4096"
    P256 = "p256"
    P384 = "p384"


class KeyEncoding(StrEnum):
    """The PEM format of the private key."""

    PKCS8 = "pkcs8"
    """PRIVATE KEY, for every algorithm."""
    TRADITIONAL = "traditional"
    """RSA PRIVATE KEY or EC PRIVATE KEY."""
