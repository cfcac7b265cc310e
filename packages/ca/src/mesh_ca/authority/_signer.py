"""The signer of an authority: a key, its certificate, and the certificates up to a root.

One value holds all of them, so that a key is never used with another key's certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from mesh_ca._errors import StorageError
from mesh_ca.authority._keys import SigningKey, UnacceptableKey, accepted_signing_key
from mesh_ca.authority._profile import LeafTemplate, leaf_template

CA_CERT = "ca-cert.pem"
CA_KEY = "ca-key.pem"
CERT_CHAIN = "cert-chain.pem"
ROOT_CERT = "root-cert.pem"

_MAX_CERTIFICATES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A key with the certificates that belong to it, all checked; created by `signer_from_pem`."""

    key: SigningKey = field(repr=False)
    certificate: x509.Certificate
    template: LeafTemplate  # the parts that its leaves have in common
    intermediates_pem: tuple[bytes, ...]  # between a leaf and the root, in order
    root: x509.Certificate  # at the end of the path
    roots: tuple[x509.Certificate, ...]  # the whole trust bundle
    root_pem: bytes  # the same, PEM
    not_before: datetime  # when the last certificate of the path becomes valid
    not_after: datetime  # when the first certificate of the path expires

    @property
    def root_not_after(self) -> datetime:
        """When the root expires."""
        return self.root.not_valid_after_utc

    def same_as(self, other: "Signer") -> bool:
        """Return whether certificate, intermediates and trust bundle are the same."""
        return (self.certificate, self.intermediates_pem, self.roots) == (
            other.certificate,
            other.intermediates_pem,
            other.roots,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerFiles:
    """The four files of an authority as read, under the names Istio gives them."""

    ca_cert: bytes
    ca_key: bytes = field(repr=False)
    cert_chain: bytes
    root_cert: bytes


def signer_from_pem(files: SignerFiles) -> Signer:
    """Parse and check signing material; raises StorageError that names the file at fault.

    `cert_chain` may be empty, or hold the intermediates in any order, with or without the signing
    certificate and the root. Validity in time is not checked here: it changes as time goes by.
    """
    certificate, *further = certificates(files.ca_cert, CA_CERT)
    roots = certificates(files.root_cert, ROOT_CERT)
    chain = certificates(files.cert_chain, CERT_CHAIN) if files.cert_chain.strip() else []
    key = private_key(files.ca_key)
    if key.public_key() != certificate.public_key():
        raise StorageError(
            f"{CA_KEY} is not the key of {CA_CERT}: put a pair that belongs together"
        )
    path = _path_to_root(certificate, [*further, *chain], roots)
    if path is None:
        raise StorageError(
            f"{CA_CERT} does not lead to {ROOT_CERT}: {CERT_CHAIN} must hold the certificates "
            "in between, each a CA that issued the one before"
        )
    return Signer(
        key=key,
        certificate=certificate,
        template=leaf_template(certificate, key, key_id(certificate)),
        intermediates_pem=tuple(_pem(step) for step in path[:-1]),
        root=path[-1],
        roots=tuple(dict.fromkeys(roots)),
        root_pem=b"".join(_pem(root) for root in dict.fromkeys(roots)),
        not_before=max(step.not_valid_before_utc for step in path),
        not_after=min(step.not_valid_after_utc for step in path),
    )


def signer_files(key_pem: bytes, root: x509.Certificate) -> SignerFiles:
    """Return the files of an authority whose own certificate is the root."""
    pem = _pem(root)
    return SignerFiles(ca_cert=pem, ca_key=key_pem, cert_chain=b"", root_cert=pem)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def certificates(pem: bytes, name: str) -> list[x509.Certificate]:
    """Return the certificates of a file, one at least; raises StorageError that calls it `name`."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise StorageError(f"{name} holds no readable PEM certificate") from error
    if len(found) > _MAX_CERTIFICATES:
        raise StorageError(f"{name} holds {len(found)} certificates, {_MAX_CERTIFICATES} at most")
    return found


def private_key(pem: bytes) -> SigningKey:
    """Return an authority's key, checked to be strong enough; raises StorageError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise StorageError(f"{CA_KEY} is encrypted, an unencrypted key is needed") from error
    except (ValueError, UnsupportedAlgorithm):
        # Without the cause: a parser's message about a broken key may quote the key.
        raise StorageError(f"{CA_KEY} holds no readable PEM private key") from None
    try:
        return accepted_signing_key(key)
    except UnacceptableKey as error:
        raise StorageError(f"{CA_KEY} has a {error}") from error


def key_id(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return the key identifier in certificates and lists that `certificate` signs."""
    try:
        own = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        public_key = certificate.public_key()
        own = x509.SubjectKeyIdentifier.from_public_key(public_key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def may_sign_lists(certificate: x509.Certificate) -> bool:
    """Return whether `certificate` may sign revocation lists (RFC 5280 section 4.2.1.3)."""
    try:
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.crl_sign
    except x509.ExtensionNotFound:
        return True


def _path_to_root(
    certificate: x509.Certificate,
    candidates: Sequence[x509.Certificate],
    roots: Sequence[x509.Certificate],
    below: int = 0,
) -> list[x509.Certificate] | None:
    """Return a path from `certificate`, with `below` CAs beneath it, to a root, or None."""
    if not _may_issue(certificate, below):
        return None
    if certificate in roots:
        return [certificate]
    for root in roots:
        if _may_issue(root, below + 1) and _issued(certificate, root):
            return [certificate, root]
    for candidate in candidates:
        if candidate != certificate and _issued(certificate, candidate):
            rest = [other for other in candidates if other not in {certificate, candidate}]
            path = _path_to_root(candidate, rest, roots, below + 1)
            if path is not None:
                return [certificate, *path]
    return None


def _may_issue(certificate: x509.Certificate, below: int) -> bool:
    try:
        extensions = certificate.extensions
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    ):
        return False
    if not constraints.ca:
        return False
    if constraints.path_length is not None and constraints.path_length < below:
        return False
    try:
        return extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return True


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
