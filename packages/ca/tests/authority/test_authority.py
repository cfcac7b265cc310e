import ipaddress
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca import (
    Authority,
    CaError,
    CsrError,
    IdentityError,
    KeyType,
    LifetimeError,
    NotReadyError,
)
from mesh_ca.testing import signing_request, throwaway_authority

CART = "spiffe://cluster.local/ns/shop/sa/cart"
NOW = 1_800_000_000.0
AUTHORITY = throwaway_authority(clock=lambda: NOW)
_, CSR = signing_request()


def leaf_of(chain: tuple[bytes, ...]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(chain[0])


def uris(leaf: x509.Certificate) -> list[str]:
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return names.value.get_values_for_type(x509.UniformResourceIdentifier)


def test_chain_has_the_leaf_first_and_the_root_last() -> None:
    issued = AUTHORITY.sign(CSR, identities=[CART])
    root = x509.load_pem_x509_certificate(issued.chain_pem[-1])
    assert len(issued.chain_pem) == 2
    assert issued.chain_pem[-1] == AUTHORITY.root_pem
    leaf_of(issued.chain_pem).verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)


def test_leaf_has_the_workload_profile() -> None:
    issued = AUTHORITY.sign(CSR, identities=[CART], lifetime=timedelta(hours=1))
    leaf = leaf_of(issued.chain_pem)
    root = x509.load_pem_x509_certificate(AUTHORITY.root_pem)
    extensions = leaf.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName)
    now = datetime.fromtimestamp(NOW, UTC)
    assert leaf.public_key() == x509.load_pem_x509_csr(CSR).public_key()
    assert leaf.subject == x509.Name([])
    assert names.critical
    assert uris(leaf) == [CART]
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    own_id = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    issuer_id = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issuer_id.key_identifier == own_id
    assert leaf.not_valid_before_utc == now - timedelta(minutes=2)
    assert leaf.not_valid_after_utc == now + timedelta(hours=1) == issued.not_after
    assert leaf.serial_number == issued.serial


@pytest.mark.parametrize(
    ("key_type", "encipherment"),
    [(KeyType.P256, False), (KeyType.P384, False), (KeyType.RSA_2048, True)],
)
def test_only_rsa_leaves_may_encipher_keys(key_type: KeyType, *, encipherment: bool) -> None:
    _, csr = signing_request(key_type)
    leaf = leaf_of(AUTHORITY.sign(csr, identities=[CART]).chain_pem)
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_encipherment is encipherment


@pytest.mark.parametrize("root_key", [KeyType.P384, KeyType.RSA_2048])
def test_root_may_have_another_kind_of_key(root_key: KeyType) -> None:
    authority = throwaway_authority(root_key=root_key)
    issued = authority.sign(CSR, identities=[CART])
    root = x509.load_pem_x509_certificate(authority.root_pem)
    leaf_of(issued.chain_pem).verify_directly_issued_by(root)


def test_every_identity_of_the_caller_is_certified() -> None:
    identities = [CART, "cart.shop.svc", "127.0.0.1", "::1"]
    leaf = leaf_of(AUTHORITY.sign(CSR, identities=identities).chain_pem)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert uris(leaf) == [CART]
    assert names.get_values_for_type(x509.DNSName) == ["cart.shop.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]


def test_common_name_is_the_callers_when_the_request_has_one() -> None:
    _, csr = signing_request(
        subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin.example.com")])
    )
    leaf = leaf_of(AUTHORITY.sign(csr, identities=[CART]).chain_pem)
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [name.value for name in names] == [CART]
    assert not leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical


def test_common_name_that_does_not_fit_is_left_out() -> None:
    _, csr = signing_request(subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
    identity = "spiffe://cluster.local/ns/shop/sa/" + "a" * 60
    leaf = leaf_of(AUTHORITY.sign(csr, identities=[identity]).chain_pem)
    assert leaf.subject == x509.Name([])
    assert uris(leaf) == [identity]


@pytest.mark.parametrize(
    ("identities", "message"),
    [
        ([], "no identity"),
        (["spiffe://elsewhere.example/ns/shop/sa/cart"], "not of this authority's trust domain"),
        (["spiffe://cluster.local/ns/../sa/cart"], "not a SPIFFE id"),
        (["spiffe://cluster.local/ns//sa"], "not a SPIFFE id"),
        (["spiffe://Cluster.Local/ns/shop/sa/cart"], "not a SPIFFE id"),
        (["spiffe://cluster.local/" + "a" * 2048], "not a SPIFFE id"),
        (["spiffe://cluster.local"], "not a SPIFFE id"),
        (["spiffe://cluster.local/ns/a%2fb/sa/cart"], "not a SPIFFE id"),
        (["https://cluster.local/x"], "not a SPIFFE id"),
        (["cart shop"], "neither"),
        (["*.shop.svc"], "neither"),
        ([""], "neither"),
        (["a" * 64], "neither"),
        ([f"host-{n}" for n in range(65)], "65 identities"),
    ],
)
def test_identities_that_are_not_certified(identities: list[str], message: str) -> None:
    with pytest.raises(IdentityError, match=message):
        AUTHORITY.sign(CSR, identities=identities)


def test_lifetime_ends_with_the_signers(clock: Callable[[], float]) -> None:
    authority = throwaway_authority(root_lifetime=timedelta(hours=2), clock=clock)
    issued = authority.sign(CSR, identities=[CART], lifetime=timedelta(days=30))
    assert issued.not_after == authority.not_after
    assert issued.not_after == datetime.fromtimestamp(clock(), UTC) + timedelta(hours=2)
    assert leaf_of(issued.chain_pem).not_valid_after_utc == authority.not_after


def test_longest_lifetime_there_is_does_not_overflow() -> None:
    issued = AUTHORITY.sign(CSR, identities=[CART], lifetime=timedelta.max)
    assert issued.not_after == AUTHORITY.not_after


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(seconds=-1), timedelta.min])
def test_lifetime_must_be_above_zero(lifetime: timedelta) -> None:
    with pytest.raises(LifetimeError, match="at least 1 s"):
        AUTHORITY.sign(CSR, identities=[CART], lifetime=lifetime)


@pytest.mark.parametrize(("shift_s", "reason"), [(2 * 86400, "expired"), (-86400, "valid from")])
def test_nothing_is_signed_outside_the_signers_validity(shift_s: float, reason: str) -> None:
    now = [NOW]
    authority = throwaway_authority(clock=lambda: now[0])
    now[0] += shift_s
    with pytest.raises(NotReadyError, match=reason):
        authority.sign(CSR, identities=[CART])


def test_server_certificate_has_the_servers_names_and_no_root() -> None:
    key, chain = AUTHORITY.issue_server_certificate(["istiod.istio-system.svc", "localhost"])
    assert b"PRIVATE KEY" in key
    (leaf,) = x509.load_pem_x509_certificates(chain)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["istiod.istio-system.svc", "localhost"]
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.root_pem))


def test_replaced_signer_signs_from_the_next_call_on() -> None:
    authority = throwaway_authority()
    other = throwaway_authority()
    before = authority.root_pem
    authority.replace_signer(other._signer)
    assert authority.root_pem == other.root_pem != before
    leaf = leaf_of(authority.sign(CSR, identities=[CART]).chain_pem)
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(other.root_pem))


def test_private_key_does_not_show() -> None:
    assert "key=" not in repr(AUTHORITY._signer).replace("key_id=", "")


@pytest.mark.parametrize("trust_domain", ["", "Cluster.Local", "a/b", "spiffe://a", "a" * 256])
def test_trust_domain_is_checked(trust_domain: str) -> None:
    with pytest.raises(IdentityError, match="trust domain"):
        Authority(AUTHORITY._signer, trust_domain=trust_domain)


@given(st.binary(max_size=300))
def test_garbage_is_a_clear_csr_error(garbage: bytes) -> None:
    with pytest.raises(CsrError):
        AUTHORITY.sign(garbage, identities=[CART])


@given(st.integers(min_value=0, max_value=len(CSR) - 1), st.integers(0, 255))
def test_damaged_request_never_yields_another_identity(position: int, byte: int) -> None:
    damaged = CSR[:position] + bytes([byte]) + CSR[position + 1 :]
    try:
        issued = AUTHORITY.sign(damaged, identities=[CART])
    except CsrError:
        return
    assert uris(leaf_of(issued.chain_pem)) == [CART]


@given(st.text(max_size=80))
def test_an_identity_is_certified_as_it_is_or_refused(identity: str) -> None:
    try:
        issued = AUTHORITY.sign(CSR, identities=[identity])
    except CaError:
        return
    names = leaf_of(issued.chain_pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    (name,) = names.value
    assert name.value == identity or str(name.value) == str(ipaddress.ip_address(identity))


@given(
    st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=36500)),
    st.floats(min_value=0, max_value=86399),
)
def test_leaf_is_valid_now_and_only_within_its_signers_validity(
    lifetime: timedelta, elapsed_s: float
) -> None:
    now = [NOW]
    authority = throwaway_authority(clock=lambda: now[0])
    now[0] += elapsed_s
    issued = authority.sign(CSR, identities=[CART], lifetime=lifetime)
    moment = datetime.fromtimestamp(int(now[0]), UTC)
    assert issued.not_before <= moment < issued.not_after <= authority.not_after
    assert issued.not_after <= moment + lifetime
