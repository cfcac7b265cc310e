"""Checks every answer of a certificate authority before it is published.

First each certificate is checked by itself, with errors that name the certificate and the field;
then the order of the chain; and last a TLS library checks it, by a handshake in memory as server
and as client.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from certclient._errors import CertificateRejected
from certclient.x509._certificate import Certificate
from certclient.x509._chain_path import (
    UNREADABLE,
    PathElement,
    check_order,
    check_times,
    path_element,
    usable_roots,
)
from certclient.x509._key_types import KeyEncoding
from certclient.x509._keys import PrivateKey, private_key_pem
from certclient.x509._leaf_rules import check_svid
from certclient.x509._trial_handshake import check_handshake
from mesh_identity import SpiffeId

log = logging.getLogger("certclient")

MAX_ANSWER_BYTES = 1 << 20
_MAX_ISSUED = 10
_MAX_ROOTS = 100
_BEGIN = b"-----BEGIN "


def accept(
    chain: Sequence[bytes],
    *,
    key: PrivateKey,
    spiffe_id: SpiffeId,
    now: datetime,
    key_encoding: KeyEncoding = KeyEncoding.PKCS8,
    further_names: bool = False,
    revocation_lists: Sequence[x509.CertificateRevocationList] = (),
) -> Certificate:
    """Make a `Certificate` of an authority's answer; raises CertificateRejected with the reason.

    chain: PEM, leaf first, root last. An element may have several certificates: the first of all is
        the leaf, those of the last element are the roots. Roots that are no CA certificates or have
        expired are left out and logged.
    further_names: whether the leaf may have names besides its SPIFFE id.
    revocation_lists: the lists that came with the answer.
    """
    issued, found_roots = _parse(chain)
    leaf = path_element(issued[0], "the returned certificate")
    if leaf.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != _spki(key):
        raise CertificateRejected("the returned certificate is for another key than ours")
    check_svid(leaf, spiffe_id, further_names=further_names)
    path = [leaf]
    for number, intermediate in enumerate(issued[1:], start=1):
        path.append(path_element(intermediate, f"the intermediate certificate {number}"))
    for element in path:
        check_times(element, now)
    _check_not_revoked(path, revocation_lists)
    roots, left_out = usable_roots(found_roots, now)
    if not roots:
        raise CertificateRejected(
            f"the chain does not lead to a valid root it came with: {'; '.join(left_out[:3])}"
        )
    certificate = accepted_path(
        path,
        roots,
        private_key_pem=private_key_pem(key, key_encoding),
        spiffe_id=spiffe_id,
        now=now,
    )
    if left_out:
        log.warning(
            "roots left out of the trust bundle",
            extra={"spiffe_id": str(spiffe_id), "reasons": list(left_out[:10])},
        )
    return certificate


def accepted_path(
    path: Sequence[PathElement],
    roots: Sequence[PathElement],
    *,
    private_key_pem: bytes,
    spiffe_id: SpiffeId,
    now: datetime,
) -> Certificate:
    """Make a `Certificate` of certificates that are each valid; raises CertificateRejected.

    Checks that they lead to a root, and that TLS peers which trust the root would accept them.
    """
    check_order(path, roots, now)
    chain_pem, roots_pem = _pem(path), _pem(roots)
    check_handshake(private_key_pem=private_key_pem, chain_pem=chain_pem, roots_pem=roots_pem)
    leaf = path[0].certificate
    return Certificate(
        private_key_pem=private_key_pem,
        chain_pem=chain_pem,
        trust_bundle_pem=roots_pem,
        spiffe_id=spiffe_id,
        serial=leaf.serial_number,
        not_before=leaf.not_valid_before_utc.astimezone(UTC),
        not_after=min(each.certificate.not_valid_after_utc for each in path).astimezone(UTC),
    )


def _parse(
    chain: Sequence[bytes],
) -> tuple[tuple[x509.Certificate, ...], tuple[x509.Certificate, ...]]:
    """Return the issued certificates, leaf first, and the roots."""
    if len(chain) < 2:
        raise CertificateRejected(
            f"the returned chain has {len(chain)} elements, a leaf and a root are needed"
        )
    size = sum(map(len, chain))
    if size > MAX_ANSWER_BYTES:
        raise CertificateRejected(
            f"the returned chain has {size} bytes, more than {MAX_ANSWER_BYTES} are not accepted"
        )
    # Counted before anything is parsed. One of the issued certificates may be a root.
    for what, limit, parts in (
        ("certificates before the roots", _MAX_ISSUED + 1, chain[:-1]),
        ("roots", _MAX_ROOTS, chain[-1:]),
    ):
        count = max(len(parts), sum(part.count(_BEGIN) for part in parts))
        if count > limit:
            raise CertificateRejected(
                f"the returned chain has {count} {what}, more than {limit} are not accepted"
            )
    *issued, roots = (_parse_pem(index, pem) for index, pem in enumerate(chain))
    leaf, *intermediates = (certificate for part in issued for certificate in part)
    # Some authorities send their root twice; it is not an intermediate.
    return (leaf, *(each for each in intermediates if each not in roots)), tuple(roots)


def _parse_pem(index: int, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except UNREADABLE as error:
        raise CertificateRejected(
            f"element {index} of the returned chain is no PEM certificate"
        ) from error


def _spki(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(elements: Iterable[PathElement]) -> bytes:
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in elements)


def _check_not_revoked(
    path: Sequence[PathElement], revocation_lists: Sequence[x509.CertificateRevocationList]
) -> None:
    """Raise CertificateRejected if a list that came with the chain revokes part of it.

    The list's signature is not checked: the sender of both says that peers will refuse the chain.
    """
    for element in path:
        serial = element.certificate.serial_number
        for each in revocation_lists:
            if (
                each.issuer == element.certificate.issuer
                and each.get_revoked_certificate_by_serial_number(serial) is not None
            ):
                raise CertificateRejected(f"{element.name} is revoked by a list that came with it")
