"""PEM as it is met in mounted files."""

import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from certclient import Certificate, InvalidPem, KeyEncoding, KeyType, SpiffeId
from certclient.testing import FakeAuthority, issued
from certclient.x509._pem import (
    is_unfinished,
    latest_end,
    merged_roots,
    read_pair,
    read_revocation_lists,
    read_roots,
)
from x509_chains import chain_with

Issue = Callable[[], Awaitable[Certificate]]
NOW = datetime.now(UTC)

SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it should be": lambda pem: pem,
    "CRLF": lambda pem: pem.replace(b"\n", b"\r\n"),
    "lone CR": lambda pem: pem.replace(b"\n", b"\r"),
    "byte order mark": lambda pem: b"\xef\xbb\xbf" + pem,
    "UTF-16": lambda pem: pem.decode().encode("utf-16"),
    "text before and between": lambda pem: pem.replace(
        b"-----BEGIN", b"subject=CN = x\n-----BEGIN"
    ),
    "no last newline": lambda pem: pem.rstrip(b"\n"),
    "indented": lambda pem: b"".join(b"  " + line for line in pem.splitlines(keepends=True)),
    "trailing blanks": lambda pem: pem.replace(b"\n", b"  \n"),
    "one long line": lambda pem: _one_line(pem),  # noqa: PLW0108 - defined below
    "text after": lambda pem: pem + b"\nend of file\n",
    "the same twice": lambda pem: pem + pem,
}


def _one_line(pem: bytes) -> bytes:
    lines = pem.splitlines()
    return b"".join(b"\n" + line + b"\n" if b"-----" in line else line for line in lines)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_every_spelling_of_a_pair_is_read_as_the_same(issue: Issue, spelling: str) -> None:
    certificate, spelt = await issue(), SPELLINGS[spelling]
    pair = read_pair(
        spelt(certificate.chain_pem), spelt(certificate.private_key_pem), now=datetime.now(UTC)
    )
    assert pair.chain_pem == certificate.chain_pem
    assert pair.private_key_pem == certificate.private_key_pem
    assert (pair.serial, pair.uris) == (certificate.serial, (str(certificate.spiffe_id),))
    assert (pair.not_before, pair.not_after) == (certificate.not_before, certificate.not_after)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_every_spelling_of_a_bundle_is_read_as_the_same(issue: Issue, spelling: str) -> None:
    bundle = (await issue()).trust_bundle_pem
    assert read_roots(SPELLINGS[spelling](bundle), now=NOW).roots_pem == bundle


async def test_key_and_chain_may_share_a_file_in_any_order(issue: Issue) -> None:
    certificate = await issue()
    for content in (
        certificate.private_key_pem + certificate.chain_pem,
        certificate.chain_pem + certificate.private_key_pem,
    ):
        assert read_pair(content, content, now=datetime.now(UTC)).chain_pem == certificate.chain_pem


async def test_the_leaf_is_put_first(issue: Issue) -> None:
    certificate = await issue()
    leaf, *others = (
        each.public_bytes(Encoding.PEM)
        for each in x509.load_pem_x509_certificates(certificate.chain_pem)
    )
    pair = read_pair(b"".join((*others, leaf)), certificate.private_key_pem, now=datetime.now(UTC))
    assert pair.chain_pem == certificate.chain_pem


@pytest.mark.parametrize("key_type", [KeyType.P256, KeyType.P384, KeyType.RSA_2048])
@pytest.mark.parametrize("encoding", KeyEncoding)
async def test_keys_of_every_kind_are_read(
    real_authority: FakeAuthority, spiffe_id: SpiffeId, key_type: KeyType, encoding: KeyEncoding
) -> None:
    certificate = await issued(real_authority, spiffe_id, key_type=key_type, key_encoding=encoding)
    pair = read_pair(certificate.chain_pem, certificate.private_key_pem, now=datetime.now(UTC))
    assert pair.private_key_pem == certificate.private_key_pem


async def test_openssl_parameters_before_an_ec_key_are_passed_over(issue: Issue) -> None:
    certificate = await issue()
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    pair = read_pair(
        certificate.chain_pem, parameters + certificate.private_key_pem, now=datetime.now(UTC)
    )
    assert pair.private_key_pem == certificate.private_key_pem


async def test_parts_of_two_pairs_are_no_pair(issue: Issue) -> None:
    one, other = await issue(), await issue()
    with pytest.raises(InvalidPem, match="not the key of the certificate"):
        read_pair(one.chain_pem, other.private_key_pem, now=datetime.now(UTC))


async def test_no_part_of_a_pair_passes_for_a_pair_but_the_whole(issue: Issue) -> None:
    """What a reader may see of a file that is being written."""
    certificate = await issue()
    whole = certificate.chain_pem.rstrip(b"\n")
    boundary = whole.index(b"-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
    for length in range(0, len(whole), 7):
        if boundary <= length <= boundary + 1:
            continue  # a whole leaf without its intermediate: nothing tells that more will come
        with pytest.raises(InvalidPem):
            read_pair(whole[:length], certificate.private_key_pem, now=datetime.now(UTC))
    key = certificate.private_key_pem.rstrip(b"\n")
    for length in range(0, len(key), 3):
        with pytest.raises(InvalidPem):
            read_pair(whole, key[:length], now=datetime.now(UTC))


def root(*, serial: int = 1, ends: timedelta = timedelta(days=1)) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(NOW - timedelta(days=9))
        .not_valid_after(NOW + ends)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)


def unknown_version(pem: bytes) -> bytes:
    """Change the version of a certificate or list to one there is none of."""
    label, body = pem.splitlines()[0], b"".join(pem.splitlines()[1:-1])
    head, version, rest = base64.b64decode(body).partition(b"\x02\x01")
    changed = base64.b64encode(head + version + b"\x07" + rest[1:])
    return b"\n".join((label, changed, label.replace(b"BEGIN", b"END"), b""))


def negative_serial() -> bytes:
    """The same certificate, its serial's sign bit set in the DER."""
    pem = root(serial=0x11)
    der = bytearray(base64.b64decode(b"".join(pem.splitlines()[1:-1])))
    der[der.index(b"\x02\x01\x11") + 2] = 0x91
    body = base64.b64encode(bytes(der))
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"\n-----END CERTIFICATE-----\n"


GARBAGE = b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"
NOT_DER = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "bad",
    [
        GARBAGE,
        NOT_DER,
        negative_serial(),
        unknown_version(root()),
        root(ends=timedelta(days=-1)),
    ],
    ids=["no base64", "no certificate", "negative serial", "unknown version", "expired"],
)
def test_a_bundle_with_one_bad_root_gives_the_good_ones(bad: bytes) -> None:
    good = root()
    for content in (bad + good, good + bad, good + bad + good):
        roots = read_roots(content, now=NOW)
        assert roots.roots_pem == good
        assert len(roots.skipped) == 1
    with pytest.raises(InvalidPem, match="no valid root certificate: block 1"):
        read_roots(bad, now=NOW)


def test_a_certificate_that_is_no_ca_is_a_root_only_where_a_file_pins_it() -> None:
    chain = chain_with((x509.DNSName("pinned.test"),))
    pem, good = (
        x509.load_der_x509_certificate(each.der).public_bytes(Encoding.PEM)
        for each in (chain.issued[0], chain.roots[0])
    )
    assert read_roots(pem, now=NOW).roots_pem == pem
    roots = read_roots(pem + good, now=NOW, authorities_only=True)
    assert roots.roots_pem == good
    assert roots.skipped == ("block 1: it is no CA certificate",)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no PEM at all", b"\xff\xfe"])
def test_nothing_is_no_bundle(content: bytes) -> None:
    with pytest.raises(InvalidPem, match="no valid root"):
        read_roots(content, now=NOW)


def test_a_bundle_is_the_same_in_any_order_and_with_repetitions() -> None:
    one, two, three = root(serial=1), root(serial=2), root(serial=3)
    bundle = read_roots(one + two + three, now=NOW).roots_pem
    assert read_roots(three + two + one + two, now=NOW).roots_pem == bundle
    assert merged_roots(two, one + three, one.replace(b"\n", b"\r\n")) == bundle


def test_parts_without_a_last_newline_are_joined_whole() -> None:
    one, two = root(serial=1), root(serial=2)
    joined = merged_roots(one.rstrip(), two.rstrip())
    assert len(x509.load_pem_x509_certificates(joined)) == 2
    # Two parts run together on one line are still two.
    assert read_roots(one.rstrip() + two, now=NOW).roots_pem == joined


def test_the_end_of_a_bundle_is_that_of_its_last_root() -> None:
    later = root(ends=timedelta(days=5))
    end = latest_end(root() + later + GARBAGE)
    assert end == x509.load_pem_x509_certificate(later).not_valid_after_utc
    assert latest_end(b"") is None


def test_an_unfinished_file_is_known_by_its_end() -> None:
    pem = root()
    assert not is_unfinished(pem)
    assert not is_unfinished(pem + b"some words\n")
    for cut in (10, 40, 100, len(pem) - 20):
        assert is_unfinished(pem + pem[:cut])


def test_revocation_lists_are_read_and_garbage_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    crl = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(x509.Name([]))
        .last_update(NOW)
        .next_update(NOW + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    assert read_revocation_lists(b"words\n" + crl + crl).crl_pem == crl
    garbage = GARBAGE.replace(b"CERTIFICATE", b"X509 CRL")
    for content in (b"", crl[:60], GARBAGE, garbage, unknown_version(crl)):
        with pytest.raises(InvalidPem):
            read_revocation_lists(content)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_one_way(one: bytes, other: bytes) -> None:
    for content in (one, b"-----BEGIN CERTIFICATE-----" + one + b"-----END CERTIFICATE-----"):
        with pytest.raises(InvalidPem):
            read_roots(content, now=NOW)
        with pytest.raises(InvalidPem):
            read_pair(content, other, now=datetime.now(UTC))


def test_what_is_too_long_is_refused_unread() -> None:
    with pytest.raises(InvalidPem, match="more than 1048576 bytes"):
        read_roots(b" " * ((1 << 20) + 1), now=NOW)
    with pytest.raises(InvalidPem, match="more than 1000 PEM blocks"):
        read_roots(GARBAGE * 1001, now=NOW)
