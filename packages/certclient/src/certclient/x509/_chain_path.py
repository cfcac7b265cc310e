"""Checks the order of a certificate chain: which certificate issued which, validity, and keys.

A chain is checked in the order in which it was sent: each certificate must be issued by the next,
and one of them by a root. There is no search for a path that could be misled. Names, lengths and
purposes along the path are left to the trial handshake.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtensionOID

from certclient._errors import CertificateRejected

CLOCK_SKEW = timedelta(seconds=60)
"""A certificate that begins this far in the future is accepted, as its issuer's clock may be ahead.
There is no such tolerance at its end, because peers have none."""

UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    Warning,
)
"""The exceptions that cryptography raises for malformed certificates. A negative serial is a
warning that will become an error; an unknown tag in a name is a KeyError in older versions."""

_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192
"""Go's TLS refuses keys above 8192 bits, and verifying with them is slow."""
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_UNDERSTOOD = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.NAME_CONSTRAINTS,
        ExtensionOID.CERTIFICATE_POLICIES,
        ExtensionOID.POLICY_CONSTRAINTS,
        ExtensionOID.POLICY_MAPPINGS,
        ExtensionOID.INHIBIT_ANY_POLICY,
    }
)
"""The extensions that BoringSSL and OpenSSL both accept when they are critical."""

E = TypeVar("E", bound=x509.ExtensionType)


class PathElement(NamedTuple):
    """A certificate that was parsed completely.

    name: its name in error messages, as "the root certificate 2".
    """

    name: str
    certificate: x509.Certificate
    extensions: x509.Extensions
    key: CertificatePublicKeyTypes

    def extension(self, kind: type[E]) -> E | None:
        """Return the extension's value; None without it."""
        try:
            return self.extensions.get_extension_for_class(kind).value
        except x509.ExtensionNotFound:
            return None


def path_element(certificate: x509.Certificate, name: str, *, is_root: bool = False) -> PathElement:
    """Parse a certificate and check it by itself, except for its times; raises CertificateRejected.

    is_root: the signature's algorithm is not checked, because no peer verifies a root's signature.
    """
    try:
        extensions = certificate.extensions
        key = certificate.public_key()
        _ = certificate.issuer, certificate.subject
        hash_algorithm = certificate.signature_hash_algorithm
        ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        negative = certificate.serial_number < 0
    except UNREADABLE as error:
        raise CertificateRejected(f"{name} cannot be read: {str(error)[:200]}") from error
    if len(extensions) and certificate.version is not x509.Version.v3:
        raise CertificateRejected(f"{name} is of version 1 and has extensions")
    if negative:
        raise CertificateRejected(f"{name} has a negative serial")
    if ends[0] > ends[1]:
        raise CertificateRejected(f"{name} ends before it begins")
    if (weakness := _key_problem(key)) is not None:
        raise CertificateRejected(
            f"{name} has {weakness}; RSA of {_MIN_RSA_BITS} to {_MAX_RSA_BITS} bits, P-256, P-384 "
            "or P-521 is needed"
        )
    if not is_root and hash_algorithm is not None and not isinstance(hash_algorithm, _HASHES):
        raise CertificateRejected(
            f"{name} is signed with {hash_algorithm.name}; SHA-256, SHA-384 or SHA-512 is needed"
        )
    for extension in extensions:
        if extension.critical and extension.oid not in _UNDERSTOOD:
            raise CertificateRejected(
                f"{name} has the critical extension {extension.oid.dotted_string}, which TLS "
                "peers do not understand"
            )
    return PathElement(name, certificate, extensions, key)


def _key_problem(key: CertificatePublicKeyTypes) -> str | None:
    match key:
        case rsa.RSAPublicKey(key_size=bits):
            good = _MIN_RSA_BITS <= bits <= _MAX_RSA_BITS
            return None if good else f"an RSA key of {bits} bits"
        case ec.EllipticCurvePublicKey(curve=curve):
            return None if isinstance(curve, _CURVES) else f"a key on the curve {curve.name}"
        case ed25519.Ed25519PublicKey():
            return None  # of an issuer; a leaf's key is one we generated, or that `ssl` can use
        case _:
            return "a key of a kind that TLS peers do not accept"


def check_times(element: PathElement, now: datetime) -> None:
    """Raise CertificateRejected unless a certificate is valid now."""
    begins = element.certificate.not_valid_before_utc
    if now + CLOCK_SKEW < begins:
        raise CertificateRejected(
            f"{element.name} is valid from {begins} only, and this machine's clock says {now}"
        )
    _check_not_expired(element, now)


def _check_not_expired(element: PathElement, now: datetime) -> None:
    ends = element.certificate.not_valid_after_utc
    if now >= ends:
        raise CertificateRejected(
            f"{element.name} expired at {ends}, and this machine's clock says {now}"
        )


def read_authority(certificate: x509.Certificate, name: str) -> PathElement:
    """Read a root; raises CertificateRejected unless it is a CA certificate."""
    root = path_element(certificate, name, is_root=True)
    if (problem := _authority_problem(root)) is not None:
        raise CertificateRejected(problem)
    return root


def usable_roots(
    certificates: Iterable[x509.Certificate], now: datetime
) -> tuple[tuple[PathElement, ...], tuple[str, ...]]:
    """Return the CA certificates that have not expired, each once, and why others are left out.

    Roots that are not valid yet are included: they may be distributed ahead of time.
    """
    roots: list[PathElement] = []
    left_out: list[str] = []
    for number, certificate in enumerate(dict.fromkeys(certificates), start=1):
        try:
            root = read_authority(certificate, f"the root certificate {number}")
            _check_not_expired(root, now)
        except CertificateRejected as error:
            left_out.append(str(error))
        else:
            roots.append(root)
    return tuple(roots), tuple(left_out)


def ordered_path(
    leaf: PathElement, others: Iterable[x509.Certificate], roots: Sequence[PathElement]
) -> tuple[PathElement, ...]:
    """Return the leaf and the intermediates that lead from it to a root.

    others: intermediates in any order. Certificates that do not belong to the path, or that can't
        be read, are left out.
    """
    path, left = [leaf], list(others)
    while left and all(_issuing_problem(path[-1], root) is not None for root in roots):
        for certificate in left:
            try:
                parent = path_element(certificate, f"the intermediate certificate {len(path)}")
            except CertificateRejected:
                continue
            if _issuing_problem(path[-1], parent) is None:
                break
        else:
            break
        path.append(parent)
        left.remove(certificate)
    return tuple(path)


def check_order(issued: Sequence[PathElement], roots: Sequence[PathElement], now: datetime) -> None:
    """Raise CertificateRejected unless each is issued by the next, and one of them by a root.

    A root that is not valid yet does not count.
    """
    for child, parent in pairwise(issued):
        if (problem := _issuing_problem(child, parent)) is not None:
            raise CertificateRejected(
                f"the chain is broken, {child.name} is not issued by the next: {problem}"
            )
    problems: list[str] = []
    for each in reversed(issued):
        for root in roots:
            if root.certificate.not_valid_before_utc > now + CLOCK_SKEW:
                problems.append(f"{root.name} is not valid yet")
                continue
            problem = _issuing_problem(each, root)
            if problem is None:
                return
            problems.append(problem)
    why = f": {problems[0]}" if len(roots) == 1 else ""
    raise CertificateRejected(f"the chain does not lead to a valid root it came with{why}")


def _issuing_problem(child: PathElement, parent: PathElement) -> str | None:
    """Return why a certificate is not issued by another; None if it is."""
    if (problem := _authority_problem(parent)) is not None:
        return problem
    if child.certificate.issuer != parent.certificate.subject:
        return f"the issuer that {child.name} names is not the subject of {parent.name}"
    if not _names_key_of(child, parent):
        return f"{child.name} names another key as its issuer's than that of {parent.name}"
    try:
        child.certificate.verify_directly_issued_by(parent.certificate)
    except InvalidSignature:
        return f"the signature on {child.name} is not by the key of {parent.name}"
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return f"the signature on {child.name} cannot be checked: {str(error)[:200]}"
    return None


def _authority_problem(element: PathElement) -> str | None:
    constraints = element.extension(x509.BasicConstraints)
    if constraints is None or not constraints.ca:
        return f"{element.name} is no CA certificate"
    usage = element.extension(x509.KeyUsage)
    if usage is not None and not usage.key_cert_sign:
        return f"{element.name} may not sign certificates by its key usage"
    return None


def _names_key_of(child: PathElement, parent: PathElement) -> bool:
    named = child.extension(x509.AuthorityKeyIdentifier)
    own = parent.extension(x509.SubjectKeyIdentifier)
    if named is None or named.key_identifier is None or own is None:
        return True
    return named.key_identifier == own.digest
