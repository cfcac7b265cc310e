from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca import (
    Authority,
    ClientCertificateAuthenticator,
    Credentials,
    CsrError,
    IdentityError,
    KeyType,
    NotAuthenticated,
    RevocationList,
    RootPolicy,
    StorageError,
    load_or_create_authority,
    replace_root,
    rotating_authority,
    signer_from_pem,
)
from mesh_ca.authority._keys import accepted_public_key, key_pem, new_key
from mesh_ca.authority._signer import signer_files
from mesh_ca.revocation._revoked import from_json
from mesh_ca.testing import signing_request, throwaway_authority
from mesh_testkit import small_disk

CART = "spiffe://cluster.local/ns/shop/sa/cart"
DAY_S = 86400.0


class FakeClock:
    """The clock of conftest, as the type checker sees it."""

    now: float

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ours(clock: FakeClock) -> Authority:
    return throwaway_authority(root_lifetime=timedelta(days=365), clock=clock)


@pytest.fixture
def revocations(tmp_path: Path, ours: Authority, clock: FakeClock) -> RevocationList:
    return RevocationList(tmp_path / "ca", ours, clock=clock)


def listed(revocations: RevocationList) -> x509.CertificateRevocationList:
    return x509.load_pem_x509_crl(revocations.pem)


def serials(revocations: RevocationList) -> list[int]:
    return [entry.serial_number for entry in listed(revocations)]


def number(revocations: RevocationList) -> int:
    return listed(revocations).extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def root(authority: Authority) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.root_pem)


def is_signed_by(crl: x509.CertificateRevocationList, issuer: x509.Certificate) -> bool:
    return crl.is_signature_valid(accepted_public_key(issuer.public_key()))


def test_empty_list_is_signed_by_the_authority(
    revocations: RevocationList, ours: Authority, clock: FakeClock
) -> None:
    assert revocations.refresh()
    crl = listed(revocations)
    issuer = root(ours)
    assert is_signed_by(crl, issuer)
    assert crl.issuer == issuer.subject
    assert serials(revocations) == []
    assert crl.next_update_utc == datetime.fromtimestamp(clock.now, UTC) + timedelta(hours=24)
    assert x509.load_der_x509_crl(revocations.der) == crl
    named = crl.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert named.key_identifier == own.key_identifier


def test_revoked_certificate_is_listed_at_once_and_after_a_restart(
    tmp_path: Path, revocations: RevocationList, ours: Authority, clock: FakeClock
) -> None:
    revocations.refresh()
    revocations.revoke(0xABC, reason="keyCompromise")
    revocations.revoke(0xDEF)
    revocations.revoke(0xABC)
    assert serials(revocations) == [0xABC, 0xDEF]
    assert number(revocations) == 3
    assert (tmp_path / "ca" / "ca-crl.pem").read_bytes() == revocations.pem
    again = RevocationList(tmp_path / "ca", ours, clock=clock)
    again.refresh()
    assert serials(again) == [0xABC, 0xDEF]
    assert number(again) == 4
    assert 0xABC in again.serials
    assert 0xABD not in again.serials
    reason = listed(again).get_revoked_certificate_by_serial_number(0xABC)
    assert reason is not None
    given_reason = reason.extensions.get_extension_for_class(x509.CRLReason).value.reason
    assert given_reason is x509.ReasonFlags.key_compromise


def test_what_cannot_be_written_is_refused_and_revokes_nothing(
    tmp_path: Path, ours: Authority, clock: FakeClock
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        revocations = RevocationList(disk.path / "ca", ours, clock=clock)
        revocations.refresh()
        revocations.revoke(0xABC)
        for prevent, allow, reason in (
            (disk.fill, disk.free, "No space left on device"),
            (disk.make_read_only, disk.make_writable, "Read-only file system"),
        ):
            prevent()
            with pytest.raises(StorageError, match=reason):
                revocations.revoke(0xDEF)
            assert serials(revocations) == [0xABC]
            allow()
        revocations.revoke(0xDEF)
        assert serials(revocations) == [0xABC, 0xDEF]
        again = RevocationList(disk.path / "ca", ours, clock=clock)
        again.refresh()
        assert serials(again) == [0xABC, 0xDEF]


def test_list_is_renewed_long_before_its_next_update(
    revocations: RevocationList, clock: FakeClock
) -> None:
    revocations.refresh()
    clock.now += DAY_S / 2 - 1
    assert not revocations.refresh()
    clock.now += 1
    assert revocations.refresh()
    assert number(revocations) == 2


def test_certificate_that_has_expired_leaves_the_list(
    revocations: RevocationList, clock: FakeClock
) -> None:
    end = datetime.fromtimestamp(clock.now + DAY_S, UTC)
    revocations.revoke(1, not_after=end)
    revocations.revoke(2)
    assert serials(revocations) == [1, 2]
    clock.now += DAY_S
    assert revocations.refresh()
    assert serials(revocations) == [2]


def test_what_another_process_revoked_is_seen(
    tmp_path: Path, revocations: RevocationList, ours: Authority, clock: FakeClock
) -> None:
    revocations.refresh()
    RevocationList(tmp_path / "ca", ours, clock=clock).revoke(7)
    assert 7 not in revocations.serials
    assert revocations.refresh()
    assert 7 in revocations.serials


def leaf_of(authority: Authority, *, proven_at: datetime | None = None) -> x509.Certificate:
    issued = authority.sign(signing_request()[1], identities=[CART], proven_at=proven_at)
    return x509.load_pem_x509_certificate(issued.chain_pem[0])


def test_a_revoked_identity_is_accepted_again_once_it_was_proved_anew(
    tmp_path: Path, revocations: RevocationList, ours: Authority, clock: FakeClock
) -> None:
    stolen = leaf_of(ours)
    clock.now += 60
    revocations.revoke_identity(CART)
    renewed = leaf_of(ours, proven_at=datetime.fromtimestamp(clock.now - 60, UTC))
    again = RevocationList(tmp_path / "ca", ours, clock=clock)
    again.refresh()
    clock.now += 1
    for each in (revocations, again):
        assert each.is_revoked(stolen)
        assert each.is_revoked(renewed)
        assert not each.is_revoked(leaf_of(ours))


def test_a_revoked_key_gets_no_certificate_and_keeps_none(
    tmp_path: Path, revocations: RevocationList, ours: Authority, clock: FakeClock
) -> None:
    csr = signing_request()[1]
    issued = ours.sign(csr, identities=[CART])
    running = RevocationList(tmp_path / "ca", ours, clock=clock)
    running.refresh()
    revocations.revoke_key(issued.public_key_sha256)
    assert running.refresh()
    for each in (revocations, running):
        assert each.is_revoked(x509.load_pem_x509_certificate(issued.chain_pem[0]))
        assert not each.is_revoked(leaf_of(ours))
        with pytest.raises(CsrError, match="key of the certificate request is revoked"):
            ours.sign(csr, identities=[CART], is_key_revoked=each.is_key_revoked)


@pytest.mark.parametrize("text", ["", "zz", "A" * 64, "a" * 63])
def test_what_is_no_fingerprint_of_a_key_is_refused(text: str, revocations: RevocationList) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        revocations.revoke_key(text)


@pytest.mark.parametrize("text", ["", "spiffe://A/b", "spiffe://a/../b", "a b"])
def test_what_is_no_identity_is_refused(text: str, revocations: RevocationList) -> None:
    with pytest.raises(IdentityError, match="identity"):
        revocations.revoke_identity(text)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"version": 2}', b"[" * 9000])
def test_damaged_file_is_reported_and_the_list_stays(
    text: bytes, revocations: RevocationList
) -> None:
    revocations.revoke(1)
    before = revocations.pem
    revocations.file.write_bytes(text)
    with pytest.raises(StorageError, match=r"revoked\.json is damaged"):
        revocations.refresh()
    with pytest.raises(StorageError, match=r"revoked\.json is damaged"):
        revocations.revoke(2)
    assert revocations.pem == before
    assert 1 in revocations.serials
    assert revocations.file.read_bytes() == text


def test_no_list_before_the_first(revocations: RevocationList) -> None:
    with pytest.raises(StorageError, match="no revocation list has been signed yet"):
        _ = revocations.pem


@pytest.mark.parametrize(("serial", "reason"), [(0, "unspecified"), (1 << 160, "unspecified")])
def test_impossible_serial_numbers_are_refused(
    serial: int, reason: str, revocations: RevocationList
) -> None:
    with pytest.raises(ValueError, match="serial number out of range"):
        revocations.revoke(serial, reason=reason)


def test_unknown_reason_is_refused_with_those_that_are_right(revocations: RevocationList) -> None:
    with pytest.raises(ValueError, match="keyCompromise"):
        revocations.revoke(1, reason="boredom")


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_file_or_an_ordinary_error(text: bytes) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, OverflowError, RecursionError)):
        from_json(text)


async def test_a_revoked_client_certificate_is_no_proof(
    revocations: RevocationList, ours: Authority, clock: FakeClock
) -> None:
    issued = ours.sign(signing_request()[1], identities=[CART])
    leaf = x509.load_pem_x509_certificate(issued.chain_pem[0])
    credentials = Credentials(
        metadata={}, encrypted=True, certificate_chain=(leaf.public_bytes(Encoding.DER),)
    )
    callers = ClientCertificateAuthenticator(is_revoked=revocations.is_revoked, clock=clock)
    assert (await callers.authenticate(credentials)).identities == (CART,)
    revocations.revoke(issued.serial, not_after=issued.not_after)
    with pytest.raises(NotAuthenticated, match=f"{issued.serial:x} is revoked"):
        await callers.authenticate(credentials)


async def test_rotation_renews_the_list_and_signs_it_with_the_new_root(
    tmp_path: Path, clock: FakeClock
) -> None:
    directory = tmp_path / "ca"
    authority = load_or_create_authority(directory, trust_domain="cluster.local", clock=clock)
    revocations = RevocationList(directory, authority, clock=clock)
    policy = RootPolicy(spread=timedelta(hours=1))
    async with rotating_authority(
        directory, authority, policy=policy, revocations=revocations, clock=clock
    ) as rotating:
        assert number(revocations) == 1
        replace_root(directory, policy, clock=clock)
        await rotating.check()
        clock.now += 3600
        await rotating.check()
        signing = authority.signer.certificate
        assert listed(revocations).issuer == signing.subject
        assert is_signed_by(listed(revocations), signing)
        before = number(revocations)
        clock.now += DAY_S
        await rotating.check()
        assert number(revocations) == before + 1
        assert rotating.problem is None


def test_authority_that_may_not_sign_lists_says_so(tmp_path: Path) -> None:
    key = new_key(KeyType.P256)
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "no lists")])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    signer = signer_from_pem(signer_files(key_pem(key), certificate))
    revocations = RevocationList(tmp_path, Authority(signer, trust_domain="cluster.local"))
    with pytest.raises(StorageError, match=r"key usage of ca-cert\.pem lacks cRLSign"):
        revocations.refresh()
