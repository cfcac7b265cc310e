"""Whatever an authority answers, the old certificate stays and the renewal fails in a sentence."""

import asyncio
import ssl
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from certclient import (
    AuthorityUnavailable,
    CertClientError,
    CertificateRejected,
    IstioCaConfig,
    RotationConfig,
    istio_ca,
    keep_fresh,
)
from certclient.testing import FakeAuthority, Fault, fake_istio_ca
from certclient.x509._acceptance import accept
from certclient.x509._keys import signing_request
from mesh_lifecycle.testing import ManualClock
from x509_chains import SPIFFE_ID, Chain, chain_with, further_name, permitted

URI = x509.UniformResourceIdentifier(str(SPIFFE_ID))
GUARD_S = 120


@cache
def good() -> Chain:
    return chain_with((URI,))


def taken_or_refused(answer: tuple[bytes, ...]) -> bool:
    """Say whether an answer is taken; whatever else than a refusal it raises fails the test."""
    key = good().key
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    try:
        certificate = accept(answer, key=key, spiffe_id=SPIFFE_ID, now=datetime.now(UTC))
    except CertificateRejected as error:
        sentence = str(error)
    else:
        assert certificate.spiffe_id == SPIFFE_ID
        return True
    assert len(sentence) < 1000
    assert "\n" not in sentence
    return False


def pem(der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).encode()


@settings(deadline=None, max_examples=300)
@given(
    which=st.integers(0, 2),
    edits=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_certificate_with_bytes_changed_is_refused_or_still_ours(
    which: int, edits: list[tuple[int, int]]
) -> None:
    ders = [bytearray(each.der) for each in (*good().issued, *good().roots)]
    before = bytes(ders[which])
    for position, value in edits:
        ders[which][position % len(before)] = value
    leaf, intermediate, root = (pem(bytes(each)) for each in ders)
    taken = taken_or_refused((leaf, intermediate, root))
    # A root's own signature is never checked; every other byte is covered by a signature.
    assert not taken or which == 2 or bytes(ders[which]) == before


@settings(deadline=None, max_examples=200)
@given(
    which=st.integers(0, 2),
    begin=st.integers(0, 2000),
    length=st.integers(0, 2000),
    inserted=st.binary(max_size=100),
)
def test_a_certificate_with_parts_cut_out_or_put_in_is_refused(
    which: int, begin: int, length: int, inserted: bytes
) -> None:
    ders = [each.der for each in (*good().issued, *good().roots)]
    begin %= len(ders[which])
    changed = ders[which][:begin] + inserted + ders[which][begin + length :]
    if changed != ders[which]:
        ders[which] = changed
        leaf, intermediate, root = map(pem, ders)
        assert not taken_or_refused((leaf, intermediate, root)) or which == 2


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.sampled_from(["leaf", "intermediate", "root", "cut", "nothing", "text"]), max_size=6
    )
)
def test_parts_of_an_answer_in_any_order_are_taken_only_in_order(order: list[str]) -> None:
    leaf, intermediate = (pem(each.der) for each in good().issued)
    parts = {
        "leaf": leaf,
        "intermediate": intermediate,
        "root": good().roots_pem,
        "cut": leaf[: len(leaf) // 2],
        "nothing": b"",
        "text": b"certificates follow\n" + intermediate,
    }
    taken = taken_or_refused(tuple(parts[each] for each in order))
    # The intermediate is a CA too, and may be handed out as the root.
    assert not taken or (order[0] == "leaf" and order[-1] in {"root", "intermediate", "text"})


def many(count: int) -> bytes:
    return pem(good().issued[1].der) * count


def nested(depth: int) -> bytes:
    der = b"\x05\x00"
    for _ in range(depth):
        size = len(der).to_bytes(3, "big")
        der = b"\x30\x83" + size + der
    return der


HOSTILE: dict[str, Callable[[], tuple[bytes, ...]]] = {
    "no elements": tuple,
    "empty elements": lambda: (b"", b""),
    "20 MB of one element": lambda: (good().issued_pem, b"x" * (20 << 20)),
    "20 MB of line ends": lambda: (b"\n" * (20 << 20), good().roots_pem),
    "20 MB of certificates": lambda: (many(40_000), good().roots_pem),
    "10 000 elements": lambda: (good().issued_pem,) * 10_000,
    "10 000 certificates in the chain": lambda: (many(10_000), good().roots_pem),
    "1 000 certificates in the chain": lambda: (many(1_000), good().roots_pem),
    "1 000 roots": lambda: (good().issued_pem, many(1_000)),
    "10 000 beginnings": lambda: (b"-----BEGIN CERTIFICATE-----\n" * 10_000, good().roots_pem),
    "deep nesting": lambda: (pem(nested(20_000)), good().roots_pem),
    "a length beyond the end": lambda: (pem(b"\x30\x84\xff\xff\xff\xff"), good().roots_pem),
    "no ASCII": lambda: (bytes(range(256)) * 1000, good().roots_pem),
    "a key instead": lambda: (good().key_pem, good().roots_pem),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_too_much_is_refused_before_it_is_parsed(name: str) -> None:
    answer = HOSTILE[name]()
    tracemalloc.start()
    try:
        assert not taken_or_refused(answer)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_names_without_number_against_constraints_without_number_are_refused() -> None:
    """OpenSSL compares each with each, and stops at a million."""
    names = [x509.DNSName(f"{number}.example") for number in range(3_000)]
    chain = chain_with(
        (URI,), leaf=[further_name(each) for each in names[:1_500]], root=[permitted(*names)]
    )
    key = chain.key
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    with pytest.raises(CertificateRejected, match="TLS peers would refuse it as a server"):
        accept(
            (chain.issued_pem, chain.roots_pem),
            key=key,
            spiffe_id=SPIFFE_ID,
            now=datetime.now(UTC),
            further_names=True,
        )


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_answer_leaves_the_old_certificate(
    name: str, config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    async with (
        asyncio.timeout(GUARD_S),
        keep_fresh(config, authority, clock=clock) as certificates,
    ):
        old = await certificates.wait_for_first()
        answer = HOSTILE[name]()
        authority.answer_with(lambda _: answer)
        with pytest.raises(CertClientError):
            await certificates.renew()
        assert certificates.latest is old
        assert certificates.status.refused
        assert certificates.last_error


async def test_20_megabytes_are_not_even_read_from_the_connection(
    authority: FakeAuthority,
) -> None:
    authority.answer_with(lambda _: (b"x" * (20 << 20), good().roots_pem))
    async with asyncio.timeout(GUARD_S), fake_istio_ca(authority) as server:
        config = IstioCaConfig(address=server.address, root_certificate=None)
        async with istio_ca(config) as client:
            key = ec.generate_private_key(ec.SECP256R1())
            with pytest.raises(AuthorityUnavailable, match="larger than max"):
                await client.sign(signing_request(key, SPIFFE_ID), lifetime=timedelta(hours=1))


async def test_a_bad_answer_is_reported_in_status_and_log_and_the_next_good_one_is_taken(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        asyncio.timeout(GUARD_S),
        keep_fresh(config, authority, clock=clock) as certificates,
    ):
        old = await certificates.wait_for_first()
        authority.answer_wrongly(Fault.CODE_SIGNING)
        with pytest.raises(CertClientError, match="no clientAuth and no serverAuth"):
            await certificates.renew()
        assert certificates.latest is old
        (record,) = (each for each in caplog.records if each.levelname == "WARNING")
        assert record.message == "certificate renewal failed, keeping the current one"
        assert "its extended key usage has no" in str(vars(record)["reason"])
