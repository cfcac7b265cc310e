"""Any bytes as PEM: a chain, a key, roots, revocation lists, in whole or half written files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certclient import InvalidPem
from certclient.x509._pem import (
    is_unfinished,
    latest_end,
    merged_roots,
    read_pair,
    read_revocation_lists,
    read_roots,
)

_NOW = datetime(2030, 1, 1, tzinfo=UTC)


def check(data: bytes) -> None:
    """Each reader reads or raises InvalidPem; what is read can be read again, and holds no key."""
    is_unfinished(data)
    latest_end(data)
    merged = merged_roots(data)
    assert merged_roots(merged) == merged
    chain, _, key = data.partition(b"\0")
    with suppress(InvalidPem):
        pair = read_pair(chain, key or chain, now=_NOW)
        assert b"PRIVATE KEY" not in pair.chain_pem
    for authorities_only in (False, True):
        with suppress(InvalidPem):
            roots = read_roots(data, now=_NOW, authorities_only=authorities_only)
            assert b"PRIVATE KEY" not in roots.roots_pem
            again = read_roots(roots.roots_pem, now=_NOW, authorities_only=authorities_only)
            assert again.roots_pem == roots.roots_pem
    with suppress(InvalidPem):
        read_revocation_lists(data)


LONGEST_BYTES = 8192


def originals() -> Iterator[bytes]:
    """An authority, a workload's certificate with its key, a revocation list."""
    root_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "mesh")])

    def builder(key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(issuer_name=name, subject_name=name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - timedelta(days=1))
            .not_valid_after(_NOW + timedelta(days=1))
        )

    constraints = x509.BasicConstraints(ca=True, path_length=None)
    root = builder(root_key).add_extension(constraints, critical=True)
    root_pem = root.sign(root_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier("spiffe://td/ns/a/sa/b")])
    leaf = builder(key).add_extension(names, critical=True)
    leaf_pem = leaf.sign(root_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        key_pem = key.private_bytes(Encoding.PEM, form, NoEncryption())
        yield leaf_pem + root_pem + b"\0" + key_pem
    yield root_pem
    lists = x509.CertificateRevocationListBuilder(issuer_name=name)
    lists = lists.last_update(_NOW).next_update(_NOW + timedelta(days=1))
    yield lists.sign(root_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    yield root_pem[:-30]
