"""The check that every answer of a certificate authority passes before anyone sees it.

The chain arrives in order, so it is followed as it stands: each certificate must be issued by the
next, and the last by one of the roots. There is no search for a path and nothing to be led astray.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from certclient._certificate import Certificate
from certclient._errors import CertificateRejected
from certclient._keys import KeyEncoding, PrivateKey, private_key_pem
from certclient._spiffe import SpiffeId

_MAX_BYTES = 1 << 20
_MAX_CERTIFICATES = 100
_CLOCK_SKEW = timedelta(seconds=60)
"""A certificate that begins this little in the future is taken: the authority's clock is ahead."""


def accept(
    chain: Sequence[bytes],
    *,
    key: PrivateKey,
    spiffe_id: SpiffeId,
    now: datetime,
    key_encoding: KeyEncoding = KeyEncoding.PKCS8,
) -> Certificate:
    """Make a `Certificate` of an authority's answer; raises CertificateRejected with the reason.

    chain: PEM, leaf first, root last. An element may hold several certificates: the first is the
    leaf, those of the last element are the roots.
    """
    leaf, intermediates, roots = _parse(chain)
    if _public_bytes(leaf) != _spki(key):
        raise CertificateRejected("the returned certificate is for another key than ours")
    _check_identity(leaf, spiffe_id)
    issued = (leaf, *intermediates)
    for certificate in issued:
        _check_time(certificate, now)
    _check_chain(issued, roots, now)
    return Certificate(
        private_key_pem=private_key_pem(key, key_encoding),
        chain_pem=b"".join(c.public_bytes(Encoding.PEM) for c in issued),
        trust_bundle_pem=b"".join(c.public_bytes(Encoding.PEM) for c in roots),
        spiffe_id=spiffe_id,
        serial=leaf.serial_number,
        not_before=leaf.not_valid_before_utc.astimezone(UTC),
        not_after=min(c.not_valid_after_utc for c in issued).astimezone(UTC),
    )


def _parse(
    chain: Sequence[bytes],
) -> tuple[x509.Certificate, tuple[x509.Certificate, ...], tuple[x509.Certificate, ...]]:
    if len(chain) < 2:
        raise CertificateRejected(
            f"the returned chain has {len(chain)} elements, a leaf and a root are needed"
        )
    if sum(map(len, chain)) > _MAX_BYTES or len(chain) > _MAX_CERTIFICATES:
        raise CertificateRejected("the returned chain is longer than any real one")
    *issued, last = (_parse_pem(index, pem) for index, pem in enumerate(chain))
    leaf, *intermediates = (certificate for part in issued for certificate in part)
    # An authority that hands out its root twice means nothing by it.
    roots = tuple(dict.fromkeys(last))
    return leaf, tuple(c for c in intermediates if c not in roots), roots


def _parse_pem(index: int, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise CertificateRejected(
            f"element {index} of the returned chain is no PEM certificate"
        ) from error


def _public_bytes(certificate: x509.Certificate) -> bytes:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateRejected("the returned certificate's key cannot be read") from error
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _spki(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_identity(leaf: x509.Certificate, spiffe_id: SpiffeId) -> None:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise CertificateRejected(
            f"the returned certificate has no readable alternative name, {spiffe_id} is needed"
        ) from error
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if uris != [str(spiffe_id)]:
        shown = ", ".join(uri[:300] for uri in uris[:5]) or "no URI"
        raise CertificateRejected(f"the returned certificate is for {shown}, not for {spiffe_id}")


def _check_time(certificate: x509.Certificate, now: datetime) -> None:
    if now + _CLOCK_SKEW < certificate.not_valid_before_utc:
        raise CertificateRejected(
            f"the returned certificate is valid from {certificate.not_valid_before_utc} only, "
            f"and this machine's clock says {now}"
        )
    if now >= certificate.not_valid_after_utc:
        raise CertificateRejected(
            f"the returned certificate expired at {certificate.not_valid_after_utc}, "
            f"and this machine's clock says {now}"
        )


def _check_chain(
    issued: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], now: datetime
) -> None:
    for below, (child, parent) in enumerate(pairwise(issued)):
        if not _is_issued_by(child, parent, authorities_below=below):
            raise CertificateRejected(
                f"the returned chain is broken: element {below} is not issued by the next"
            )
    last = issued[-1]
    if not any(
        now < root.not_valid_after_utc
        and _is_issued_by(last, root, authorities_below=len(issued) - 1)
        for root in roots
    ):
        raise CertificateRejected("the returned chain does not lead to a valid root it came with")


def _is_issued_by(
    child: x509.Certificate, parent: x509.Certificate, *, authorities_below: int
) -> bool:
    """Say whether the signature, the names and the parent's right to sign are in order."""
    try:
        constraints = parent.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not constraints.ca:
            return False
        if constraints.path_length is not None and constraints.path_length < authorities_below:
            return False
        child.verify_directly_issued_by(parent)
        return _may_sign(parent)
    except (
        x509.ExtensionNotFound,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
        InvalidSignature,
        UnsupportedAlgorithm,
        ValueError,
        TypeError,
    ):
        return False


def _may_sign(parent: x509.Certificate) -> bool:
    try:
        usage = parent.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return usage.key_cert_sign
