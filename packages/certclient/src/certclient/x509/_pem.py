"""Reads key pairs, roots and revocation lists from PEM files, whatever tool wrote them.

Byte order marks, CRLF, text around the blocks, a key before its certificate, and a missing last
newline all occur in files that people mount. The PEM that is returned is canonical.
"""

import base64
import binascii
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from certclient._errors import CertificateRejected, InvalidPem
from certclient.x509._chain_path import UNREADABLE, check_times, path_element, read_authority
from certclient.x509._keys import PrivateKey
from certclient.x509._leaf_rules import check_pair_leaf

MAX_PEM_BYTES = 1 << 20
_MAX_BLOCKS = 1000

_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_KEY_LABELS = frozenset({"PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"})
_CERTIFICATE_LABELS = frozenset({"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A key and its chain, leaf first; PEM, each block ending in a newline."""

    private_key_pem: bytes = field(repr=False)
    chain_pem: bytes = field(repr=False)
    serial: int
    not_before: datetime
    not_after: datetime
    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """Trusted roots as PEM: each once, in an order that does not depend on the source's.

    skipped: the reasons for which certificates were left out.
    """

    roots_pem: bytes = field(repr=False)
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationLists:
    """Revocation lists as PEM."""

    crl_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Block:
    label: str
    der: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of a text.

    unfinished: the last block has no end, as while a file is being written.
    """

    found: tuple[_Block, ...]
    unfinished: bool


def is_unfinished(content: bytes) -> bool:
    """Return whether the last block has a beginning and no end."""
    return _blocks(content).unfinished


def read_pair(chain: bytes, key: bytes, *, now: datetime) -> KeyPair:
    """Read a chain and its key; raises InvalidPem if TLS could not use them now.

    The leaf is the certificate of the key, wherever it is in the file; the others keep their order.
    The leaf need not lead to a root: the roots verify peers, and may be of another PKI.
    """
    private_key = _private_key(key)
    certificates = _certificates(chain)
    wanted = spki(private_key.public_key())
    leaf = next((each for each in certificates if _has_key(each, wanted)), None)
    if leaf is None:
        raise InvalidPem("the key is not the key of the certificate")
    try:
        checked = path_element(leaf, "the certificate")
        check_pair_leaf(checked)
        check_times(checked, now)
    except CertificateRejected as error:
        raise InvalidPem(str(error)) from error
    ordered = [leaf, *(each for each in certificates if each != leaf)]
    return KeyPair(
        private_key_pem=_canonical_key(key),
        chain_pem=b"".join(each.public_bytes(Encoding.PEM) for each in ordered),
        serial=leaf.serial_number,
        not_before=leaf.not_valid_before_utc,
        not_after=min(each.not_valid_after_utc for each in ordered),
        uris=uris_of(leaf),
    )


def read_roots(content: bytes, *, now: datetime, authorities_only: bool = False) -> Roots:
    """Read trusted roots; raises InvalidPem if none is valid.

    Certificates that can't be read, have a negative serial or have expired are left out and named
    in `skipped`.
    authorities_only: leave out certificates that are no CA's or have a weak key, too. Only roots in
        files may be certificates that are no CA's.
    """
    roots: set[bytes] = set()
    skipped: list[str] = []
    blocks = _blocks(content)
    for number, block in enumerate(blocks.found, start=1):
        if block.label not in _CERTIFICATE_LABELS:
            continue
        try:
            certificate = _certificate(block)
        except InvalidPem as error:
            skipped.append(f"block {number}: {error}")
            continue
        if certificate.not_valid_after_utc <= now:
            skipped.append(f"block {number}: expired at {certificate.not_valid_after_utc}")
            continue
        try:
            if authorities_only:
                read_authority(certificate, "it")
        except CertificateRejected as error:
            skipped.append(f"block {number}: {error}")
            continue
        roots.add(certificate.public_bytes(Encoding.PEM))
    if not roots:
        why = "; ".join(skipped[:3]) or "there is none"
        raise InvalidPem(f"no valid root certificate: {why}")
    return Roots(roots_pem=b"".join(sorted(roots)), skipped=tuple(skipped))


def read_revocation_lists(content: bytes) -> RevocationLists:
    """Read revocation lists; raises InvalidPem if there is none, or one is cut short."""
    blocks = _blocks(content)
    ders = {block.der for block in blocks.found if block.label == "X509 CRL"}
    if not ders or blocks.unfinished:
        raise InvalidPem("no complete PEM revocation list in it")
    pems = []
    for der in ders:
        try:
            pems.append(x509.load_der_x509_crl(der or b"").public_bytes(Encoding.PEM))
        except UNREADABLE as error:
            raise InvalidPem("a revocation list cannot be read") from error
    return RevocationLists(crl_pem=b"".join(sorted(pems)))


def latest_end(bundle: bytes) -> datetime | None:
    """Return when the last of a bundle's roots expires; None without roots."""
    ends = []
    for block in _blocks(bundle).found:
        with suppress(InvalidPem):
            ends.append(_certificate(block).not_valid_after_utc)
    return max(ends, default=None)


def merged_roots(*bundles: bytes) -> bytes:
    """Join bundles of PEM certificates: each root once, in an order of their own."""
    blocks = (block for bundle in bundles for block in _blocks(bundle).found)
    ders = {block.der for block in blocks if block.label in _CERTIFICATE_LABELS and block.der}
    return b"".join(sorted(_pem("CERTIFICATE", der) for der in ders))


def uris_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the URIs among the alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    ):
        return ()
    return tuple(names.get_values_for_type(x509.UniformResourceIdentifier))


def spki(key: PublicKeyTypes) -> bytes:
    """Return a public key as SubjectPublicKeyInfo, the form in which keys are compared."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _text(content: bytes) -> bytes:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace").encode("ascii", errors="replace")
    return content


def _blocks(content: bytes) -> _Blocks:
    if len(content) > MAX_PEM_BYTES:
        raise InvalidPem(f"more than {MAX_PEM_BYTES} bytes, which are not read")
    text = _text(content)
    found: list[_Block] = []
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        if len(found) == _MAX_BLOCKS:
            raise InvalidPem(f"more than {_MAX_BLOCKS} PEM blocks")
        end_line = b"-----END " + begin[1] + b"-----"
        end = text.find(end_line, begin.end())
        following = _BEGIN.search(text, begin.end())
        if end < 0 or (following is not None and following.start() < end):
            if following is None:
                return _Blocks(tuple(found), unfinished=True)
            found.append(_Block(begin[1].decode(), None))
            position = following.start()
            continue
        found.append(_Block(begin[1].decode(), _decoded(text[begin.end() : end])))
        position = end + len(end_line)
    # A last line that ends within "-----BEGIN CERTIFICATE-----" is being written.
    lines = text[position:].splitlines()
    unfinished = bool(lines) and lines[-1].startswith(b"-") and b"-----END" not in lines[-1]
    return _Blocks(tuple(found), unfinished=unfinished)


def _decoded(body: bytes) -> bytes | None:
    try:
        return base64.b64decode(b"".join(body.split()), validate=True)
    except binascii.Error:
        return None


def _pem(label: str, der: bytes) -> bytes:
    encoded = base64.b64encode(der)
    lines = [encoded[at : at + 64] for at in range(0, len(encoded), 64)]
    name = label.encode()
    return b"\n".join((b"-----BEGIN %s-----" % name, *lines, b"-----END %s-----\n" % name))


def _certificate(block: _Block) -> x509.Certificate:
    if block.der is None:
        raise InvalidPem("a PEM block that is cut short or no base64")
    try:
        certificate = x509.load_der_x509_certificate(block.der)
        negative = certificate.serial_number < 0
    except UNREADABLE as error:
        raise InvalidPem("a certificate that cannot be read") from error
    if negative:
        raise InvalidPem("a certificate with a negative serial")
    return certificate


def _certificates(content: bytes) -> list[x509.Certificate]:
    blocks = _blocks(content)
    if blocks.unfinished:
        raise InvalidPem("the last certificate is cut short")
    found = [_certificate(block) for block in blocks.found if block.label in _CERTIFICATE_LABELS]
    if not found:
        raise InvalidPem("no PEM certificate in it")
    return list(dict.fromkeys(found))


def _key_block(content: bytes) -> _Block:
    for block in _blocks(content).found:
        if block.label in _KEY_LABELS:
            return block
        if block.label == "ENCRYPTED PRIVATE KEY":
            raise InvalidPem("the key is encrypted")
    raise InvalidPem("no PEM private key in it")


def _canonical_key(content: bytes) -> bytes:
    block = _key_block(content)
    if block.der is None:
        raise InvalidPem("the key is cut short or no base64")
    return _pem(block.label, block.der)


def _private_key(content: bytes) -> PrivateKey:
    try:
        key: PrivateKeyTypes = load_pem_private_key(_canonical_key(content), password=None)
    except UNREADABLE as error:
        raise InvalidPem("the private key cannot be read") from error
    if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        return key
    raise InvalidPem("the private key is neither RSA nor ECDSA")


def _has_key(certificate: x509.Certificate, wanted: bytes) -> bool:
    try:
        return spki(certificate.public_key()) == wanted
    except UNREADABLE:
        return False
