"""A certificate of an earlier run is taken up if it is still right, and refused with the reason."""

import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certclient import (
    AuthorityUnavailable,
    Certificate,
    CertificateFile,
    Certificates,
    EarlierCertificate,
    KeyEncoding,
    KeyType,
    OutputFilesConfig,
    RotationConfig,
    SourceUnavailable,
    SpiffeId,
    StoredCertificate,
    keep_fresh,
    stored,
    write_files,
)
from certclient.files._stored_certificate import OutputFiles, _read
from certclient.testing import FakeAuthority
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until


@pytest.fixture
def file(tmp_path: Path) -> CertificateFile:
    return CertificateFile(tmp_path / "state" / "certificate.json")


@asynccontextmanager
async def running(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    earlier: EarlierCertificate | None = None,
) -> AsyncIterator[Certificates]:
    async with keep_fresh(config, authority, clock=clock, earlier=earlier) as certificates:
        yield certificates


@dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A run that has ended; the authority is away since.

    first: its certificate, which is in the file.
    """

    first: Certificate
    config: RotationConfig
    authority: FakeAuthority
    clock: ManualClock
    file: CertificateFile

    @asynccontextmanager
    async def again(
        self,
        config: RotationConfig | None = None,
        *,
        earlier: EarlierCertificate | None = None,
        anew: bool = False,
    ) -> AsyncIterator[Certificates]:
        """Run again, and take up what is in the file or in `earlier`, or with `anew` nothing."""
        source = None if anew else earlier or self.file
        config = config or self.config
        async with running(config, self.authority, self.clock, source) as certificates:
            yield certificates


@pytest.fixture
async def run(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock, file: CertificateFile
) -> EarlierRun:
    async with running(config, authority, clock) as certificates, stored(file, certificates):
        certificate = await certificates.wait_for_first()
        await until(file.path.exists, what="the file")
    authority.fail(lambda: AuthorityUnavailable("away"))
    authority.requests.clear()
    return EarlierRun(first=certificate, config=config, authority=authority, clock=clock, file=file)


async def refusal(certificates: Certificates) -> str:
    """Wait for the reason why the certificate of an earlier run is not used, and return it."""
    await until(lambda: certificates.status.not_taken_up, what="a refusal")
    assert certificates.latest is None
    return certificates.status.not_taken_up or ""


async def test_it_is_taken_up_while_the_authority_is_away(run: EarlierRun) -> None:
    await run.clock.advance(600)
    async with run.again() as certificates:
        assert await certificates.wait_for_first() == run.first
        assert certificates.status.taken_up
        assert certificates.status.attempts == 0
        await run.clock.advance(1100)
        assert run.authority.requests == []
        await run.clock.advance(200)
        assert run.authority.requests != []
        assert certificates.latest == run.first
        run.authority.answer()
        await run.clock.advance(300)
        assert certificates.latest != run.first
        assert not certificates.status.taken_up


async def test_it_is_withdrawn_when_it_ends(run: EarlierRun) -> None:
    async with run.again() as certificates:
        await certificates.wait_for_first()
        await run.clock.advance(3700)
        assert certificates.latest is None
        assert not certificates.status.taken_up


async def test_one_whose_roots_may_be_old_is_renewed_at_once(run: EarlierRun) -> None:
    class Doubtful:
        async def fetch(self) -> StoredCertificate | None:
            return StoredCertificate(
                run.first.private_key_pem,
                run.first.chain_pem,
                run.first.trust_bundle_pem,
                is_current=False,
            )

    async with run.again(earlier=Doubtful()) as certificates:
        await certificates.wait_for_first()
        await until(lambda: run.authority.requests, what="a request")
        assert certificates.latest == run.first


async def test_a_lifetime_that_was_shortened_counts(run: EarlierRun) -> None:
    await run.clock.advance(400)
    short = replace(run.config, lifetime=timedelta(minutes=10))
    async with run.again(short) as certificates:
        await certificates.wait_for_first()
        await until(lambda: run.authority.requests, what="a request")


async def test_nothing_stored_is_no_fault(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock, file: CertificateFile
) -> None:
    async with running(config, authority, clock, file) as certificates:
        await certificates.wait_for_first()
        assert certificates.status.not_taken_up is None


async def test_an_expired_one_is_refused(run: EarlierRun, caplog: pytest.LogCaptureFixture) -> None:
    await run.clock.advance(3700)
    async with run.again() as certificates:
        assert "expired" in await refusal(certificates)
    assert any(
        each.levelno == logging.WARNING and "earlier run is not used" in each.message
        for each in caplog.records
    )


async def test_one_of_another_workload_is_refused(run: EarlierRun) -> None:
    other = replace(run.config, spiffe_id=SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/other"))
    async with run.again(other) as certificates:
        assert "spiffe://cluster.local/ns/shop/sa/cart" in await refusal(certificates)


async def test_one_with_another_type_of_key_is_refused(run: EarlierRun) -> None:
    other = replace(run.config, key_type=KeyType.P384)
    async with run.again(other) as certificates:
        said = await refusal(certificates)
        assert said == "its key is of type p256, and p384 is wanted now"


async def test_the_key_is_published_in_the_encoding_that_is_wanted_now(run: EarlierRun) -> None:
    other = replace(run.config, key_encoding=KeyEncoding.TRADITIONAL)
    async with run.again(other) as certificates:
        certificate = await certificates.wait_for_first()
        assert certificate.private_key_pem.startswith(b"-----BEGIN EC PRIVATE KEY-----")
        assert certificate.serial == run.first.serial


async def test_a_key_of_another_certificate_is_refused(run: EarlierRun) -> None:
    run.authority.answer()
    async with run.again(anew=True) as certificates:
        other = await certificates.wait_for_first()
    await run.file.store(replace(run.first, private_key_pem=other.private_key_pem))
    run.authority.fail(lambda: AuthorityUnavailable("away"))
    async with run.again() as certificates:
        assert "is for another key than ours" in await refusal(certificates)


async def test_one_that_leads_to_other_roots_is_refused(run: EarlierRun) -> None:
    run.authority.change_root()
    await run.file.store(replace(run.first, trust_bundle_pem=run.authority.root_pem))
    async with run.again() as certificates:
        await refusal(certificates)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b"\xff", b"[" * 100_000])
async def test_a_damaged_file_is_refused(run: EarlierRun, content: bytes) -> None:
    run.file.path.write_bytes(content)
    async with run.again() as certificates:
        assert await refusal(certificates) == f"{run.file.path} is damaged or cut short"


async def test_a_file_that_is_cut_short_or_has_one_bit_flipped_is_refused(
    run: EarlierRun,
) -> None:
    whole = run.file.path.read_bytes()
    for place in range(0, len(whole), len(whole) // 40):
        for damaged in (
            whole[:place],
            whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :],
        ):
            run.file.path.write_bytes(damaged)
            async with run.again() as certificates:
                await refusal(certificates)


@given(content=st.binary(max_size=200) | st.dictionaries(st.text(), st.text()).map(json.dumps))
def test_any_content_is_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-content.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o600)
    with pytest.raises(SourceUnavailable):
        _read(path)


async def test_a_file_that_others_may_read_a_link_and_a_fifo_are_refused(
    run: EarlierRun, tmp_path: Path
) -> None:
    run.file.path.chmod(0o640)
    async with run.again() as certificates:
        assert "has mode 640, it must be 600" in await refusal(certificates)
    run.file.path.chmod(0o600)
    moved = run.file.path.rename(tmp_path / "moved")
    run.file.path.symlink_to(moved)
    async with run.again() as certificates:
        assert await refusal(certificates) == f"{run.file.path} is a link"
    run.file.path.unlink()
    os.mkfifo(run.file.path, 0o600)
    async with run.again() as certificates:
        assert await refusal(certificates) == f"{run.file.path} is no regular file"


async def test_the_file_is_closed_to_others_and_hides_its_key(run: EarlierRun) -> None:
    assert run.file.path.stat().st_mode & 0o777 == 0o600
    assert run.file.path.parent.stat().st_mode & 0o777 == 0o700
    found = await run.file.fetch()
    assert found is not None
    assert "PRIVATE" not in repr(found)
    await run.file.remove()
    assert await run.file.fetch() is None


async def test_a_place_that_cannot_be_written_costs_no_certificate(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "state").write_text("no directory")
    file = CertificateFile(tmp_path / "state" / "certificate.json")
    async with (
        running(config, authority, clock) as certificates,
        stored(file, certificates, clock=clock),
    ):
        await certificates.wait_for_first()
        await until(lambda: "can't be stored" in caplog.text, what="a warning")
        for _ in range(20):
            await clock.advance(1)
    assert caplog.text.count("can't be stored") == 1


@pytest.mark.parametrize("atomic", [False, True])
async def test_output_files_are_taken_up(run: EarlierRun, tmp_path: Path, *, atomic: bool) -> None:
    output = OutputFilesConfig(directory=tmp_path / "out", atomic=atomic, mode=0o644)
    write_files(output, run.first)
    earlier = OutputFiles(output, is_current=True)
    async with run.again(earlier=earlier) as certificates:
        assert await certificates.wait_for_first() == run.first


async def test_output_files_that_another_user_may_write_or_that_are_gone_are_not(
    run: EarlierRun, tmp_path: Path
) -> None:
    output = OutputFilesConfig(directory=tmp_path / "out")
    write_files(output, run.first)
    (output.directory / "root-cert.pem").chmod(0o620)
    earlier = OutputFiles(output, is_current=True)
    async with run.again(earlier=earlier) as certificates:
        assert "has mode 620" in await refusal(certificates)
    (output.directory / "root-cert.pem").unlink()
    assert await earlier.fetch() is None
