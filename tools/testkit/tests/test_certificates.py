"""Certificates of a test's authority."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from mesh_testkit.certificates import Authority


def test_certificates_lead_to_the_root_of_their_authority_only() -> None:
    authority = Authority()
    leaf = x509.load_pem_x509_certificate(authority.issue("a.example").chain_pem)
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.root_pem))
    with pytest.raises(InvalidSignature):
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(Authority().root_pem))


def test_names_are_dns_names_addresses_and_uris() -> None:
    issued = Authority().issue("a.example", "127.0.0.1", "::1", "spiffe://mesh/ns/a/sa/b")
    (leaf,) = x509.load_pem_x509_certificates(issued.chain_pem)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [type(each) for each in names] == [
        x509.DNSName,
        x509.IPAddress,
        x509.IPAddress,
        x509.UniformResourceIdentifier,
    ]
    assert "PRIVATE KEY" not in repr(issued)


@pytest.mark.parametrize("expired", [False, True])
def test_an_expired_certificate_is_expired_and_others_are_valid(*, expired: bool) -> None:
    (leaf,) = x509.load_pem_x509_certificates(
        Authority().issue("a.example", expired=expired).chain_pem
    )
    assert (leaf.not_valid_after_utc < dt.datetime.now(dt.UTC)) is expired
