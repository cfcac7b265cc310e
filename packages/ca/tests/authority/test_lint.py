"""What pkilint says of all that an authority signs, by the linter of its `lint_pkix_cert` command.

Two of that linter's checks are a library's, and narrower than the standards they stand for. Of
URIs the library knows nine schemes and calls all others bad syntax; by RFC 3986 section 3.1
`spiffe` is a good one, and X509-SVID section 2 allows no other. Of domain names it takes those
with a dot only; by the preferred name syntax (RFC 1034 section 3.5) one label will do. So leaves
are held against the command's own linter, whose objection is shown to be the scheme alone, and
against the same linter with the scheme taught to its one check of URIs.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
import validators
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from pkilint import loader, pkix, report
from pkilint.bin import lint_pkix_cert
from pkilint.document import PDUNode
from pkilint.pkix import (
    certificate,
    crl,
    extension,
    general_name,
    name,
)
from pkilint.validation import ValidationFindingSeverity as Severity
from pkilint.validation import ValidationResult, ValidatorContainer

from mesh_ca import (
    Authority,
    KeyType,
    RevocationList,
    RootPolicy,
    load_or_create_authority,
    replace_root,
)
from mesh_ca.authority._keys import key_pem, new_key, signature_hash
from mesh_ca.authority._profile import root_certificate
from mesh_ca.authority._signer import SignerFiles, key_id, signer_from_pem
from mesh_ca.directory._root_changes import apply_due_steps
from mesh_ca.testing import signing_request, throwaway_authority

CART = "spiffe://cluster.local/ns/shop/sa/cart"
SCHEME = ("pkix.invalid_uri_syntax", "uniformResourceIdentifier")
ONE_LABEL = ("pkix.invalid_domain_name_syntax", "dNSName")
LEAF_KEYS = (KeyType.P256, KeyType.P384, KeyType.RSA_2048, KeyType.RSA_3072)
ROOT_KEYS = (KeyType.P256, KeyType.P384, KeyType.RSA_2048)


class SpiffeUriSyntax(general_name.GeneralNameUriSyntaxValidator):
    """The linter's own check of URIs, which looks at a SPIFFE id as if its scheme were https."""

    def __init__(self) -> None:
        general_name.GeneralNameUriSyntaxValidator.__init__(self)

    def validate_value(self, node: PDUNode) -> bool:
        value = str(node.pdu)
        if value.startswith("spiffe://"):
            return validators.url(value.replace("spiffe:", "https:", 1)) is True
        return bool(general_name.GeneralNameUriSyntaxValidator.validate_value(self, node))


def linter() -> ValidatorContainer:
    """What the command `lint_pkix_cert` makes for itself; a test holds it against the command."""
    container: ValidatorContainer = certificate.create_pkix_certificate_validator_container(
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
    return container


def replace_uri_check(container: ValidatorContainer) -> int:
    """Replace the check that `SpiffeUriSyntax` extends by it; return how many were replaced."""
    replaced = 0
    for position, validator in enumerate(container.validators):
        if type(validator) is general_name.GeneralNameUriSyntaxValidator:
            container.validators[position] = SpiffeUriSyntax()
            replaced += 1
        elif isinstance(validator, ValidatorContainer):
            replaced += replace_uri_check(validator)
    return replaced


@cache
def linter_that_knows_spiffe() -> ValidatorContainer:
    found = linter()
    assert replace_uri_check(found) == 1
    return found


def findings(pem: bytes, by: ValidatorContainer | None = None) -> set[tuple[str, str]]:
    """What a linter, the command's by default, says at NOTICE or above: code and place."""
    document = loader.load_pem_certificate(pem.decode(), "certificate")
    return problems((by or linter()).validate(document.root))


def problems(results: Iterable[ValidationResult]) -> set[tuple[str, str]]:
    minded = {Severity.NOTICE, Severity.WARNING, Severity.ERROR, Severity.FATAL}
    return {
        (described.finding.code, result.node.name)
        for result in results
        for described in result.finding_descriptions
        if described.finding.severity in minded
    }


def authority_below(*key_types: KeyType) -> Authority:
    """An authority with a key of each type from the root down, as an operator would plug it in."""
    now = datetime.now(UTC).replace(microsecond=0)
    keys = [new_key(key_type) for key_type in key_types]
    above = root_certificate(
        keys[0], organization="root", serial=1, now=now, lifetime=timedelta(days=9)
    )
    path = [above]
    for depth, key in enumerate(keys[1:], start=1):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, f"level {depth}")])
        extensions = [extension.value for extension in above.extensions]
        above = (
            x509.CertificateBuilder(above.subject, subject, key.public_key(), depth + 1)
            .not_valid_before(now)
            .not_valid_after(now + timedelta(days=8))
            .add_extension(extensions[0], critical=True)
            .add_extension(extensions[1], critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(key_id(above), critical=False)
            .sign(keys[depth - 1], signature_hash(keys[depth - 1]))
        )
        path.append(above)
    pems = [each.public_bytes(Encoding.PEM) for each in path]
    files = SignerFiles(
        ca_cert=pems[-1],
        ca_key=key_pem(keys[-1]),
        cert_chain=b"".join(pems[1:-1]),
        root_cert=pems[0],
    )
    return Authority(signer_from_pem(files), trust_domain="cluster.local")


def test_linter_is_the_one_the_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    linter()  # the library's list of checks is whole from the second linter of a process on
    assert lint_pkix_cert.main(["validations"]) == 0
    by_the_command = capsys.readouterr().out.split()
    assert sorted(report.report_included_validations(linter()).split()) == sorted(by_the_command)


@pytest.mark.parametrize("root_key", ROOT_KEYS)
def test_root_has_no_lint(root_key: KeyType) -> None:
    assert findings(throwaway_authority(root_key=root_key).root_pem) == set()


@pytest.mark.parametrize("root_key", ROOT_KEYS)
@pytest.mark.parametrize("key_type", LEAF_KEYS)
def test_workload_certificate_has_no_lint(key_type: KeyType, root_key: KeyType) -> None:
    _, csr = signing_request(key_type)
    issued = throwaway_authority(root_key=root_key).sign(csr, identities=[CART])
    assert findings(issued.chain_pem[0], by=linter_that_knows_spiffe()) == set()


@pytest.mark.parametrize("key_type", LEAF_KEYS)
def test_linter_without_our_check_reports_only_the_scheme_of_a_workload_certificate(
    key_type: KeyType,
) -> None:
    _, csr = signing_request(key_type)
    issued = throwaway_authority().sign(csr, identities=[CART])
    assert findings(issued.chain_pem[0]) == {SCHEME}


def test_scheme_is_all_that_the_linter_reports_in_an_identity() -> None:
    assert validators.url(CART) is not True
    assert validators.url(CART.replace("spiffe:", "https:")) is True


def test_linter_that_knows_spiffe_still_reports_a_bad_uri() -> None:
    _, csr = signing_request()
    chain = throwaway_authority("under_score").sign(csr, identities=["spiffe://under_score/ns"])
    assert findings(chain.chain_pem[0], by=linter_that_knows_spiffe()) == {SCHEME}


@pytest.mark.parametrize(
    "key_types",
    [
        (KeyType.P256, KeyType.P256),
        (KeyType.RSA_2048, KeyType.P256),
        (KeyType.P384, KeyType.RSA_2048, KeyType.P384),
    ],
)
@pytest.mark.parametrize("leaf_key", [KeyType.P256, KeyType.RSA_2048])
def test_no_certificate_of_a_plugged_in_chain_has_lint(
    key_types: Sequence[KeyType], leaf_key: KeyType
) -> None:
    _, csr = signing_request(leaf_key)
    issued = authority_below(*key_types).sign(csr, identities=[CART])
    assert len(issued.chain_pem) == 1 + len(key_types)
    for pem in issued.chain_pem:
        assert findings(pem, by=linter_that_knows_spiffe()) == set()


def test_certificate_with_a_common_name_has_no_lint() -> None:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "anything")])
    _, csr = signing_request(subject=subject)
    issued = throwaway_authority().sign(csr, identities=[CART])
    assert findings(issued.chain_pem[0], by=linter_that_knows_spiffe()) == set()


def test_certificate_of_a_workload_known_by_dns_name_has_no_lint() -> None:
    _, csr = signing_request()
    issued = throwaway_authority().sign(csr, identities=["cart.shop.svc.cluster.local"])
    assert findings(issued.chain_pem[0]) == set()


def test_server_certificate_has_no_lint() -> None:
    _, chain = throwaway_authority().issue_server_certificate(
        ["istiod.istio-system.svc", "127.0.0.1"]
    )
    assert findings(chain) == set()


def test_server_certificate_for_localhost_has_no_lint_but_for_its_single_label() -> None:
    _, chain = throwaway_authority().issue_server_certificate(
        ["istiod.istio-system.svc", "localhost", "127.0.0.1", "::1"]
    )
    assert findings(chain) == {ONE_LABEL}


def test_dot_is_all_that_the_linter_reports_in_localhost() -> None:
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
    apply_due_steps(tmp_path / "ca", policy, now=now[0])
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
