from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import validators  # type: ignore[import-untyped]
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from pkilint import loader, pkix  # type: ignore[import-untyped]
from pkilint.pkix import (  # type: ignore[import-untyped]
    certificate,
    crl,
    extension,
    name,
)
from pkilint.validation import (  # type: ignore[import-untyped]
    ValidationFindingSeverity as Severity,
)

from mesh_ca import KeyType, RevocationList, RootPolicy, load_or_create_authority, replace_root
from mesh_ca._directory import turn_root
from mesh_ca.testing import signing_request, throwaway_authority

CART = "spiffe://cluster.local/ns/shop/sa/cart"


def findings(pem: bytes) -> set[tuple[str, str]]:
    """What pkilint's RFC 5280 linter has to say at WARNING or above: code and place."""
    linter = certificate.create_pkix_certificate_validator_container(
        certificate.create_decoding_validators(
            name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS
        ),
        [
            certificate.create_issuer_validator_container([]),
            certificate.create_validity_validator_container(),
            certificate.create_subject_validator_container([]),
            certificate.create_extensions_validator_container([]),
            certificate.create_spki_validator_container([]),
        ],
    )
    document = loader.load_pem_certificate(pem.decode(), "certificate")
    return problems(linter.validate(document.root))


def problems(results: Any) -> set[tuple[str, str]]:
    return {
        (described.finding.code, result.node.name)
        for result in results
        for described in result.finding_descriptions
        if described.finding.severity in {Severity.WARNING, Severity.ERROR, Severity.FATAL}
    }


@pytest.mark.parametrize("root_key", [KeyType.P256, KeyType.RSA_2048])
def test_root_has_no_lint(root_key: KeyType) -> None:
    assert findings(throwaway_authority(root_key=root_key).root_pem) == set()


def test_server_certificate_has_no_lint() -> None:
    _, chain = throwaway_authority().issue_server_certificate(
        ["istiod.istio-system.svc", "127.0.0.1"]
    )
    assert findings(chain) == set()


# Two of the linter's checks are a library's, and narrower than the standards they stand for.
# Of URIs it knows nine schemes and calls all others bad syntax; by RFC 3986 section 3.1 `spiffe` is
# a good one, and X509-SVID section 2 allows no other. Of domain names it takes those with a dot
# only; by the preferred name syntax (RFC 1034 section 3.5) one label will do. What each objects to
# is shown below by what it says when just that is changed.
SCHEME = ("pkix.invalid_uri_syntax", "uniformResourceIdentifier")
ONE_LABEL = ("pkix.invalid_domain_name_syntax", "dNSName")


@pytest.mark.parametrize("key_type", [KeyType.P256, KeyType.P384, KeyType.RSA_2048])
def test_workload_certificate_has_no_lint_but_for_its_scheme(key_type: KeyType) -> None:
    _, csr = signing_request(key_type)
    issued = throwaway_authority().sign(csr, identities=[CART])
    assert findings(issued.chain_pem[0]) == {SCHEME}


def test_scheme_is_all_that_the_linter_minds_in_an_identity() -> None:
    assert validators.url(CART) is not True
    assert validators.url(CART.replace("spiffe:", "https:")) is True


def test_certificate_of_a_workload_known_by_dns_name_has_no_lint() -> None:
    _, csr = signing_request()
    issued = throwaway_authority().sign(csr, identities=["cart.shop.svc.cluster.local"])
    assert findings(issued.chain_pem[0]) == set()


def test_server_certificate_for_localhost_has_no_lint_but_for_its_single_label() -> None:
    _, chain = throwaway_authority().issue_server_certificate(
        ["istiod.istio-system.svc", "localhost", "127.0.0.1", "::1"]
    )
    assert findings(chain) == {ONE_LABEL}


def test_dot_is_all_that_the_linter_minds_in_localhost() -> None:
    assert validators.domain("localhost") is not True
    assert validators.domain("localhost.test") is True
    assert validators.hostname("localhost") is True


def test_root_certified_anew_and_its_successor_have_no_lint(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    policy = RootPolicy(lifetime=timedelta(days=100), spread=timedelta(days=1))
    load_or_create_authority(
        tmp_path / "ca",
        trust_domain="cluster.local",
        root_lifetime=policy.lifetime,
        clock=lambda: now[0],
    )
    now[0] += 81 * 86400
    turn_root(tmp_path / "ca", policy, now=now[0])
    replace_root(tmp_path / "ca", policy, clock=lambda: now[0])
    roots = x509.load_pem_x509_certificates((tmp_path / "ca" / "root-cert.pem").read_bytes())
    assert len(roots) == 3
    for root in roots:
        assert findings(root.public_bytes(Encoding.PEM)) == set()


def test_revocation_list_has_no_lint(tmp_path: Path) -> None:
    revocations = RevocationList(tmp_path, throwaway_authority())
    revocations.revoke(0xABC, reason="keyCompromise")
    revocations.revoke(0xDEF)
    linter = crl.create_pkix_crl_validator_container(
        [
            pkix.create_attribute_decoder(name.ATTRIBUTE_TYPE_MAPPINGS),
            pkix.create_extension_decoder(extension.EXTENSION_MAPPINGS),
        ],
        [
            crl.create_issuer_validator_container([]),
            crl.create_validity_validator_container([]),
            crl.create_extensions_validator_container([]),
        ],
    )
    document = loader.load_pem_crl(revocations.pem.decode(), "list")
    assert problems(linter.validate(document.root)) == set()
