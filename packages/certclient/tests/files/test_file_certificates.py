"""Certificates in files: which are accepted as any pair, and which as the workload's."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID as Use

from certclient import (
    CertificateRejected,
    Certificates,
    FilesConfig,
    InvalidPem,
    InvalidSpiffeId,
    follow_files,
)
from certclient.files._file_certificates import certificate_of
from certclient.x509._pem import read_pair
from x509_chains import (
    SPIFFE_ID,
    Arrange,
    Chain,
    Edit,
    alternative_names,
    authority,
    chain_with,
    extension,
    fields,
    further_name,
    permitted,
    purposes,
    signed,
    unknown,
    usage,
    without,
)

URI, DNS = x509.UniformResourceIdentifier, x509.DNSName
BASIC, USAGE = x509.BasicConstraints, x509.KeyUsage
CA = extension(BASIC(ca=True, path_length=None), critical=True)
TAKEN = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """pair, workload: the error as a `file-cert:` pair and as the workload's; TAKEN without one.

    A pair that is refused is refused as the workload's too.
    """

    leaf: tuple[Edit, ...] = ()
    intermediate: tuple[Edit, ...] = ()
    root: tuple[Edit, ...] = ()
    arranged: Arrange | None = None
    pair: str | None
    workload: str | None = None


ROWS = {
    "a good chain": Row(pair=TAKEN),
    "with the root in it": Row(
        arranged=lambda p: p.chain(p.leaf, p.intermediate, p.root), pair=TAKEN
    ),
    "in another order": Row(arranged=lambda p: p.chain(p.root, p.intermediate, p.leaf), pair=TAKEN),
    "with a stray certificate": Row(
        arranged=lambda p: p.chain(p.leaf, signed(authority("stray")), p.intermediate), pair=TAKEN
    ),
    "further names": Row(leaf=(further_name(DNS("cart.shop.svc")),), pair=TAKEN),
    "no key usage": Row(leaf=(without(USAGE),), pair=TAKEN),
    "host names only": Row(
        leaf=(alternative_names(DNS("shop.example.com")),),
        pair=TAKEN,
        workload="has 0 URIs, one SPIFFE id is needed",
    ),
    "serverAuth only": Row(
        leaf=(purposes(Use.SERVER_AUTH),), pair=TAKEN, workload="has no clientAuth"
    ),
    "clientAuth only": Row(
        leaf=(purposes(Use.CLIENT_AUTH),), pair=TAKEN, workload="has no serverAuth"
    ),
    "codeSigning": Row(leaf=(purposes(Use.CODE_SIGNING),), pair="is not for TLS"),
    "no digitalSignature": Row(
        leaf=(extension(usage("key_encipherment"), critical=True),), pair="no digitalSignature"
    ),
    "must-staple": Row(
        leaf=(extension(x509.TLSFeature([x509.TLSFeatureType.status_request])),),
        pair="must-staple",
    ),
    "an intermediate as the leaf": Row(leaf=(CA,), pair="is a CA certificate"),
    "self-signed by openssl req -x509": Row(
        leaf=(CA, without(USAGE), without(x509.ExtendedKeyUsage)),
        arranged=lambda p: p.chain(signed(p.leaf.cert), roots=[signed(p.leaf.cert)]),
        pair=TAKEN,
        workload="is a CA certificate",
    ),
    "not yet valid by an hour": Row(
        leaf=(fields(begins=1 / 24, ends=2),), pair="is valid from .* this machine's clock says"
    ),
    "expired": Row(leaf=(fields(begins=-2, ends=-1),), pair="expired at"),
    "RSA 1024": Row(leaf=(fields(key="rsa1024"),), pair="RSA key of 1024 bits"),
    "signed with SHA-1": Row(leaf=(fields(hashed_with="sha1"),), pair="signed with sha1"),
    "an unknown critical extension": Row(leaf=(unknown(critical=True),), pair="critical extension"),
    "a foreign root": Row(
        arranged=lambda p: p.chain(p.leaf, p.intermediate, roots=[signed(authority("foreign"))]),
        pair=TAKEN,
        workload="does not lead to a valid root",
    ),
    "no intermediate": Row(
        arranged=lambda p: p.chain(p.leaf), pair=TAKEN, workload="does not lead to a valid root"
    ),
    "an expired intermediate": Row(
        intermediate=(fields(begins=-2, ends=-1),),
        pair=TAKEN,
        workload="the intermediate certificate 1 expired",
    ),
    "a root that is no CA": Row(
        root=(without(BASIC),), pair=TAKEN, workload="the root certificate 1 is no CA"
    ),
    "name constraints that exclude us": Row(
        root=(permitted(URI("other.local")),), pair=TAKEN, workload="permitted subtree violation"
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_pair_in_files(name: str) -> None:
    row, now = ROWS[name], datetime.now(UTC)
    chain = chain_of(row)
    key_pem = leaf_key_pem(chain)
    if row.pair is not TAKEN:
        with pytest.raises(InvalidPem, match=row.pair):
            read_pair(chain.issued_pem, key_pem, now=now)
        return
    pair = read_pair(chain.issued_pem, key_pem, now=now)
    if row.workload is not TAKEN:
        with pytest.raises((CertificateRejected, InvalidSpiffeId), match=row.workload):
            certificate_of(pair, chain.roots_pem, now=now)
        return
    certificate = certificate_of(pair, chain.roots_pem, now=now)
    assert certificate.spiffe_id == SPIFFE_ID
    assert certificate.chain_pem == pair.chain_pem
    assert certificate.trust_bundle_pem == chain.roots_pem


async def test_a_bad_pair_leaves_the_old_one_and_is_reported(tmp_path: Path) -> None:
    good = chain_of(Row(leaf=(fields(serial=1),), pair=TAKEN))
    bad = chain_of(Row(leaf=(fields(serial=2), purposes(Use.CLIENT_AUTH)), pair=TAKEN))
    better = chain_of(Row(leaf=(fields(serial=3),), pair=TAKEN))
    put(tmp_path, good)
    async with (
        asyncio.timeout(60),
        follow_files(FilesConfig.in_directory(tmp_path)) as certificates,
    ):
        assert (await certificates.wait_for_first()).serial == 1
        put(tmp_path, bad)
        await error_is(certificates, "has no serverAuth")
        assert serial_of(certificates) == 1
        put(tmp_path, better)
        await error_is(certificates, None)
        assert serial_of(certificates) == 3


async def test_a_root_that_is_taken_away_is_no_longer_trusted_though_we_lead_to_it(
    tmp_path: Path,
) -> None:
    """Somebody had a reason; that our own certificate is not renewed yet is reported."""
    first = chain_of(Row(pair=TAKEN))
    other = replace(first, roots=(signed(authority("newer root")),))
    put(tmp_path, first)
    async with (
        asyncio.timeout(60),
        follow_files(FilesConfig.in_directory(tmp_path)) as certificates,
    ):
        before = await certificates.wait_for_first()
        put(tmp_path, other)
        await error_is(certificates, "does not lead to a valid root")
        after = certificates.latest
        assert after is not None
        assert after.chain_pem == before.chain_pem
        assert after.trust_bundle_pem == other.roots_pem
        put(tmp_path, first)
        await error_is(certificates, None)
        assert certificates.latest == before


def chain_of(row: Row) -> Chain:
    return chain_with(
        (URI(str(SPIFFE_ID)),),
        leaf=row.leaf,
        intermediate=row.intermediate,
        root=row.root,
        arranged=row.arranged,
    )


def leaf_key_pem(chain: Chain) -> bytes:
    """Return the key of the leaf, which need not come first here."""
    (leaf,) = (each for each in chain.issued if not each.cert.subject)
    return replace(chain, issued=(leaf,)).key_pem


def put(directory: Path, chain: Chain) -> None:
    (directory / "key.pem").write_bytes(leaf_key_pem(chain))
    (directory / "root-cert.pem").write_bytes(chain.roots_pem)
    (directory / "cert-chain.pem").write_bytes(chain.issued_pem)


def serial_of(certificates: Certificates) -> int | None:
    return certificates.latest.serial if certificates.latest is not None else None


async def error_is(certificates: Certificates, wanted: str | None) -> None:
    """Wait until the files' trouble, or its end, is logged."""
    async for status in certificates.statuses():
        error = status.last_error
        if error == wanted or (wanted is not None and error is not None and wanted in error):
            return
