"""For tests of programs that use a certificate authority: an authority, requests, an authenticator.

authority = throwaway_authority()
key_pem, csr_pem = signing_request()
authority.sign(csr_pem, identities=["spiffe://cluster.local/ns/shop/sa/cart"])
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from mesh_ca._errors import NotAuthenticated
from mesh_ca.authority._authority import Authority
from mesh_ca.authority._keys import KeyType, key_pem, new_key, signature_hash
from mesh_ca.authority._profile import root_certificate, whole_second
from mesh_ca.authority._serial_number import random_serial_number
from mesh_ca.authority._signer import signer_files, signer_from_pem
from mesh_ca.callers._authenticator import Caller, Credentials


def throwaway_authority(
    trust_domain: str = "cluster.local",
    *,
    root_lifetime: timedelta = timedelta(days=1),
    root_key: KeyType = KeyType.P256,
    clock: Callable[[], float] = time.time,
) -> Authority:
    """Return a real authority with a new root that is only in memory."""
    key = new_key(root_key)
    root = root_certificate(
        key,
        organization=trust_domain,
        serial=random_serial_number(),
        now=whole_second(clock()),
        lifetime=root_lifetime,
    )
    signer = signer_from_pem(signer_files(key_pem(key), root))
    return Authority(signer, trust_domain=trust_domain, clock=clock)


def signing_request(
    key_type: KeyType = KeyType.P256,
    *,
    subject: x509.Name | None = None,
    extensions: Sequence[x509.ExtensionType] = (),
) -> tuple[bytes, bytes]:
    """Return a new private key and a signing request for it, both PEM."""
    key = new_key(key_type)
    builder = x509.CertificateSigningRequestBuilder(subject or x509.Name([]))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    csr = builder.sign(key, signature_hash(key))
    return key_pem(key), csr.public_bytes(serialization.Encoding.PEM)


class FixedAuthenticator:
    """Authenticates every call as the same caller, or none if there are no identities."""

    def __init__(self, *identities: str) -> None:
        """Answer with `identities`."""
        self._identities = identities

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Return the caller with these identities."""
        del credentials
        if not self._identities:
            raise NotAuthenticated("this authenticator has no identities and refuses every call")
        return Caller(identities=self._identities, method="fixed")
