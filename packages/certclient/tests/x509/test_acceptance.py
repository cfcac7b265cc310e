import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from certclient import CertificateRejected, KeyEncoding, KeyType, SpiffeId
from certclient.testing import FakeAuthority, Fault
from certclient.x509._acceptance import accept
from certclient.x509._keys import new_private_key, signing_request
from mesh_lifecycle.testing import ManualClock

LIFETIME = timedelta(hours=1)


def moment(clock: ManualClock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


@pytest.mark.parametrize("key_type", list(KeyType))
@pytest.mark.parametrize("key_encoding", list(KeyEncoding))
async def test_a_good_answer_becomes_one_certificate(
    key_type: KeyType, key_encoding: KeyEncoding, spiffe_id: SpiffeId, clock: ManualClock
) -> None:
    authority = FakeAuthority(clock=clock)
    key = await new_private_key(key_type)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    certificate = accept(
        chain, key=key, spiffe_id=spiffe_id, now=moment(clock), key_encoding=key_encoding
    )
    leaf = x509.load_pem_x509_certificate(certificate.chain_pem)
    assert certificate.spiffe_id == spiffe_id
    assert certificate.serial == leaf.serial_number
    assert certificate.not_after == leaf.not_valid_after_utc == moment(clock) + LIFETIME
    assert certificate.trust_bundle_pem == authority.root_pem
    private_key = load_pem_private_key(certificate.private_key_pem, password=None)
    assert private_key.public_key() == leaf.public_key()
    header = certificate.private_key_pem.splitlines()[0]
    assert (header == b"-----BEGIN PRIVATE KEY-----") is (key_encoding is KeyEncoding.PKCS8)


async def test_every_key_is_fresh_and_the_request_names_us_alone(spiffe_id: SpiffeId) -> None:
    keys = [await new_private_key(KeyType.P256) for _ in range(2)]
    requests = [x509.load_pem_x509_csr(signing_request(key, spiffe_id)) for key in keys]
    assert requests[0].public_key() != requests[1].public_key()
    for request in requests:
        assert request.is_signature_valid
        assert len(request.subject) == 0
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert list(names) == [x509.UniformResourceIdentifier(str(spiffe_id))]


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_faulty_answer_is_refused_with_its_reason(
    fault: Fault, spiffe_id: SpiffeId, authority: FakeAuthority, clock: ManualClock
) -> None:
    reasons = {
        Fault.OTHER_KEY: "another key",
        Fault.OTHER_IDENTITY: "is for spiffe://cluster.local/ns/other/sa/other, not for",
        Fault.NO_IDENTITY: "no readable alternative name",
        Fault.EXPIRED: "expired at",
        Fault.NOT_YET_VALID: "is valid from",
        Fault.FURTHER_NAME: "is also for payments.shop.svc, which was not requested",
        Fault.CODE_SIGNING: "no clientAuth and no serverAuth",
        Fault.CA_LEAF: "is a CA certificate",
        Fault.MUST_STAPLE: "must-staple",
        Fault.FOREIGN_ROOT: "does not lead to a valid root",
        Fault.ROOT_IS_NO_AUTHORITY: "does not lead to a valid root",
        Fault.EMPTY: "has 0 elements",
        Fault.LEAF_ONLY: "has 1 elements",
        Fault.GARBAGE: "element 0 of the returned chain is no PEM certificate",
    }
    authority.answer_wrongly(fault)
    key = await new_private_key(KeyType.P256)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    with pytest.raises(CertificateRejected, match=reasons[fault]):
        accept(chain, key=key, spiffe_id=spiffe_id, now=moment(clock))


@pytest.mark.parametrize("joined", [False, True])
async def test_intermediates_stay_in_the_chain_and_the_root_leaves_it(
    *, joined: bool, spiffe_id: SpiffeId, clock: ManualClock
) -> None:
    authority = FakeAuthority(clock=clock, intermediates=2)
    key = await new_private_key(KeyType.P256)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    if joined:
        chain = (b"".join(chain[:-1]), chain[-1])
    certificate = accept(chain, key=key, spiffe_id=spiffe_id, now=moment(clock))
    assert len(x509.load_pem_x509_certificates(certificate.chain_pem)) == 3
    assert certificate.trust_bundle_pem == authority.root_pem
    assert certificate.trust_bundle_pem not in certificate.chain_pem


async def test_a_missing_intermediate_breaks_the_chain(
    spiffe_id: SpiffeId, clock: ManualClock
) -> None:
    authority = FakeAuthority(clock=clock, intermediates=2)
    key = await new_private_key(KeyType.P256)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    with pytest.raises(CertificateRejected, match="is not issued by the next: the issuer"):
        accept((chain[0], *chain[2:]), key=key, spiffe_id=spiffe_id, now=moment(clock))


async def test_several_roots_are_all_in_the_bundle_once(
    spiffe_id: SpiffeId, authority: FakeAuthority, clock: ManualClock
) -> None:
    old_root = authority.root_pem
    authority.change_root()
    key = await new_private_key(KeyType.P256)
    leaf, root = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    certificate = accept(
        (leaf, old_root + root + old_root), key=key, spiffe_id=spiffe_id, now=moment(clock)
    )
    roots = x509.load_pem_x509_certificates(certificate.trust_bundle_pem)
    assert [r.public_bytes(Encoding.PEM) for r in roots] == [old_root, root]


async def test_an_authority_a_little_ahead_of_our_clock_is_believed(
    spiffe_id: SpiffeId, authority: FakeAuthority, clock: ManualClock
) -> None:
    key = await new_private_key(KeyType.P256)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    accept(chain, key=key, spiffe_id=spiffe_id, now=moment(clock) - timedelta(seconds=110))
    with pytest.raises(CertificateRejected, match="this machine's clock says"):
        accept(chain, key=key, spiffe_id=spiffe_id, now=moment(clock) - timedelta(seconds=130))


@given(st.lists(st.binary(max_size=300) | st.just(b"-----BEGIN CERTIFICATE-----\n"), max_size=4))
async def test_hostile_bytes_are_refused_and_never_crash(chain: list[bytes]) -> None:
    spiffe_id = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/cart")
    key = await new_private_key(KeyType.P256)
    with pytest.raises(CertificateRejected):
        accept(chain, key=key, spiffe_id=spiffe_id, now=datetime.now(UTC))


async def test_no_key_shows_in_a_repr(
    spiffe_id: SpiffeId, authority: FakeAuthority, clock: ManualClock
) -> None:
    key = await new_private_key(KeyType.P256)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    certificate = accept(chain, key=key, spiffe_id=spiffe_id, now=moment(clock))
    assert "PRIVATE" not in repr(certificate)
    assert "private_key" not in repr(certificate)


async def test_a_version_that_no_certificate_has_is_refused(
    spiffe_id: SpiffeId, authority: FakeAuthority, clock: ManualClock
) -> None:
    key = await new_private_key(KeyType.P256)
    leaf, *rest = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    der = ssl.PEM_cert_to_DER_cert(leaf.decode())
    damaged = ssl.DER_cert_to_PEM_cert(der.replace(b"\x02\x01\x02", b"\x02\x01\x07", 1)).encode()
    with pytest.raises(CertificateRejected, match=r"element 0 .* is no PEM certificate"):
        accept((damaged, *rest), key=key, spiffe_id=spiffe_id, now=moment(clock))


async def test_roots_that_are_none_are_left_out_of_the_bundle_and_reported(
    spiffe_id: SpiffeId,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = await new_private_key(KeyType.P256)
    leaf, root = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    past = ManualClock(now=clock.now() - timedelta(days=20 * 365).total_seconds())
    expired = FakeAuthority(clock=past).root_pem
    accept((leaf, root), key=key, spiffe_id=spiffe_id, now=moment(clock))
    assert not caplog.records
    certificate = accept(
        (leaf, root + leaf + expired), key=key, spiffe_id=spiffe_id, now=moment(clock)
    )
    assert certificate.trust_bundle_pem == root
    (record,) = caplog.records
    assert record.message == "roots left out of the trust bundle"
    no_authority, too_old = vars(record)["reasons"]
    assert no_authority == "the root certificate 2 is no CA certificate"
    assert too_old.startswith("the root certificate 3 expired at ")


@pytest.mark.parametrize("count", [100, 101])
async def test_a_bundle_has_a_hundred_roots_at_most(
    count: int, spiffe_id: SpiffeId, authority: FakeAuthority, clock: ManualClock
) -> None:
    key = await new_private_key(KeyType.P256)
    leaf, root = await authority.sign(signing_request(key, spiffe_id), lifetime=LIFETIME)
    others = b"".join(FakeAuthority(clock=clock).root_pem for _ in range(count - 1))
    if count <= 100:
        answer = accept((leaf, others + root), key=key, spiffe_id=spiffe_id, now=moment(clock))
        assert len(x509.load_pem_x509_certificates(answer.trust_bundle_pem)) == count
    else:
        with pytest.raises(
            CertificateRejected, match="has 101 roots, more than 100 are not accepted"
        ):
            accept((leaf, others + root), key=key, spiffe_id=spiffe_id, now=moment(clock))
