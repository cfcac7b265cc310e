"""Reads certificate signing requests (CSRs): only the public key is taken from one.

Subject, names and extensions of a request are unverified claims. They are not copied, and mostly
not even parsed.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import SignatureAlgorithmOID

from mesh_ca._errors import CsrError
from mesh_ca.authority._keys import PublicKey, UnacceptableKey, accepted_public_key

MAX_CSR_BYTES = 16 * 1024

_COMMON_NAME_OID = b"\x06\x03\x55\x04\x03"
_ECDSA: Mapping[x509.ObjectIdentifier, ec.ECDSA] = {
    SignatureAlgorithmOID.ECDSA_WITH_SHA256: ec.ECDSA(hashes.SHA256()),
    SignatureAlgorithmOID.ECDSA_WITH_SHA384: ec.ECDSA(hashes.SHA384()),
    SignatureAlgorithmOID.ECDSA_WITH_SHA512: ec.ECDSA(hashes.SHA512()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest:
    """A request that is signed by its own key, so that its sender holds the private key."""

    public_key: PublicKey
    has_common_name: bool


def check_size(pem: bytes) -> None:
    """Raise CsrError for a signing request that is too large to be parsed."""
    if len(pem) > MAX_CSR_BYTES:
        raise CsrError(f"CSR of {len(pem)} bytes, {MAX_CSR_BYTES} are allowed")


def parse_csr(pem: bytes) -> SigningRequest:
    """Parse and verify a PEM signing request; raises CsrError."""
    check_size(pem)
    try:
        request = x509.load_pem_x509_csr(pem)
        unchecked_key = request.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise CsrError("CSR can't be parsed, one PEM block CERTIFICATE REQUEST is right") from error
    # Before the signature is verified: an oversized key would make that expensive.
    try:
        public_key = accepted_public_key(unchecked_key)
    except UnacceptableKey as error:
        raise CsrError(f"CSR has a {error}") from error
    signed = request.tbs_certrequest_bytes
    try:
        verified = _is_signed_by(public_key, request, signed)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CsrError("CSR is signed with an unknown algorithm") from error
    if not verified:
        raise CsrError("CSR is not signed by its own key")
    return SigningRequest(public_key=public_key, has_common_name=_has_common_name(request, signed))


def _is_signed_by(
    public_key: PublicKey, request: x509.CertificateSigningRequest, signed: bytes
) -> bool:
    # Nearly all requests have ECDSA keys. `is_signature_valid` would parse the key a second time,
    # which takes a fifth more time.
    ecdsa = _ECDSA.get(request.signature_algorithm_oid)
    if ecdsa is None or not isinstance(public_key, ec.EllipticCurvePublicKey):
        return request.is_signature_valid
    try:
        public_key.verify(request.signature, signed, ecdsa)
    except InvalidSignature:
        return False
    return True


def _has_common_name(request: x509.CertificateSigningRequest, signed: bytes) -> bool:
    # Parsing a subject takes longer than all else here and most requests have none, so the
    # attribute's bytes are looked for first: without them there is no common name.
    if _COMMON_NAME_OID not in signed:
        return False
    with warnings.catch_warnings():  # a common name over 64 characters is only warned of
        warnings.simplefilter("ignore")
        try:
            names = request.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        except (ValueError, KeyError) as error:  # KeyError: an unknown tag, to older cryptography
            raise CsrError("CSR has a subject that can't be parsed") from error
    return bool(names)
