"""A stored certificate counts as far as its roots are trusted now."""

from datetime import timedelta
from pathlib import Path

import pytest

import certclient
from certclient.testing import FakeAuthority, issued
from mesh_agent.identity._learned_roots import CERTIFICATE_AUTHORITY
from mesh_agent.identity._stored_certificate import TrustedOnly
from mesh_identity import LearnedRoots
from mesh_lifecycle import SystemClock

SPIFFE_ID = certclient.SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/cart")


@pytest.fixture
async def authority() -> FakeAuthority:
    return FakeAuthority()


@pytest.fixture
async def file(authority: FakeAuthority, tmp_path: Path) -> certclient.CertificateFile:
    """The file of an earlier run."""
    file = certclient.CertificateFile(tmp_path / "certificate.json")
    await file.store(await issued(authority, SPIFFE_ID, lifetime=timedelta(hours=1)))
    return file


@pytest.fixture
def root_file(authority: FakeAuthority, tmp_path: Path) -> Path:
    path = tmp_path / "root-cert.pem"
    path.write_bytes(authority.root_pem)
    return path


@pytest.fixture
def learned(tmp_path: Path) -> LearnedRoots:
    return LearnedRoots(tmp_path / "learned-roots.json", now=SystemClock().now)


async def test_with_the_same_roots_it_counts(
    file: certclient.CertificateFile, root_file: Path, learned: LearnedRoots
) -> None:
    found = await TrustedOnly(file, root_file, learned).fetch()
    assert found is not None
    assert found.is_current
    assert found.trust_bundle_pem.strip() == root_file.read_bytes().strip()


async def test_without_one_there_is_none(
    tmp_path: Path, root_file: Path, learned: LearnedRoots
) -> None:
    file = certclient.CertificateFile(tmp_path / "another.json")
    assert await TrustedOnly(file, root_file, learned).fetch() is None


async def test_a_root_that_was_taken_out_of_the_file_does_not_come_back(
    file: certclient.CertificateFile,
    root_file: Path,
    learned: LearnedRoots,
    authority: FakeAuthority,
) -> None:
    authority.change_root()
    root_file.write_bytes(authority.root_pem)
    with pytest.raises(certclient.CertificateRejected, match="none of its roots is in"):
        await TrustedOnly(file, root_file, learned).fetch()


async def test_a_root_that_was_added_asks_for_another_certificate_at_once(
    file: certclient.CertificateFile,
    root_file: Path,
    learned: LearnedRoots,
    authority: FakeAuthority,
) -> None:
    before = root_file.read_bytes()
    authority.change_root()
    root_file.write_bytes(before + authority.root_pem)
    found = await TrustedOnly(file, root_file, learned).fetch()
    assert found is not None
    assert not found.is_current
    assert found.trust_bundle_pem.strip() == before.strip()


async def test_learned_roots_count_as_those_of_the_file(
    root_file: Path, learned: LearnedRoots, authority: FakeAuthority, tmp_path: Path
) -> None:
    authority.change_root()
    file = certclient.CertificateFile(tmp_path / "of-the-new-root.json")
    await file.store(await issued(authority, SPIFFE_ID, lifetime=timedelta(hours=1)))
    learned.further_roots(CERTIFICATE_AUTHORITY, root_file.read_bytes())
    learned.learn(CERTIFICATE_AUTHORITY, authority.root_pem, complete=False)
    found = await TrustedOnly(file, root_file, learned).fetch()
    assert found is not None
    assert found.trust_bundle_pem.strip() == authority.root_pem.strip()


async def test_a_root_file_that_is_gone_is_the_reason(
    file: certclient.CertificateFile, root_file: Path, learned: LearnedRoots
) -> None:
    root_file.unlink()
    with pytest.raises(certclient.SourceUnavailable, match="by which its roots are checked"):
        await TrustedOnly(file, root_file, learned).fetch()
