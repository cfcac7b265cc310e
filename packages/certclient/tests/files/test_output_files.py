import logging
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from certclient import (
    Certificate,
    Certificates,
    OutputFilesConfig,
    RotationConfig,
    keep_fresh,
    output_files,
    write_files,
)
from certclient.testing import FakeAuthority
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import PATIENCE_S, hanging_mount, small_disk, until


@pytest.fixture
async def certificates(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> AsyncIterator[Certificates]:
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await certificates.wait_for_first()
        yield certificates


@pytest.fixture
def certificate(certificates: Certificates) -> Certificate:
    assert certificates.latest is not None
    return certificates.latest


def on_disk(directory: Path) -> tuple[bytes, bytes, bytes]:
    key, chain, root = (
        (directory / name).read_bytes() for name in ("key.pem", "cert-chain.pem", "root-cert.pem")
    )
    return key, chain, root


def is_on_disk(directory: Path, expected: tuple[bytes, bytes, bytes]) -> bool:
    return (directory / "cert-chain.pem").is_file() and on_disk(directory) == expected


def as_written(certificate: Certificate) -> tuple[bytes, bytes, bytes]:
    return certificate.private_key_pem, certificate.chain_pem, certificate.trust_bundle_pem


async def wait_until(clock: ManualClock, true: Callable[[], bool]) -> None:
    """Give the writing thread its time."""
    while not true():
        await clock.settle()


def test_three_files_are_written_for_the_owner_alone(
    certificate: Certificate, tmp_path: Path
) -> None:
    config = OutputFilesConfig(directory=tmp_path / "certs")
    assert write_files(config, certificate) == ("root-cert.pem", "key.pem", "cert-chain.pem")
    assert on_disk(config.directory) == as_written(certificate)
    files = sorted(config.directory.iterdir())
    assert [file.name for file in files] == ["cert-chain.pem", "key.pem", "root-cert.pem"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("atomic", [False, True])
def test_a_fifo_in_the_place_of_a_file_is_replaced(
    certificate: Certificate, tmp_path: Path, *, atomic: bool
) -> None:
    config = OutputFilesConfig(directory=tmp_path, atomic=atomic)
    write_files(config, certificate)
    path = (tmp_path / "key.pem").resolve()
    path.unlink()
    os.mkfifo(path)
    writing = threading.Thread(target=write_files, args=(config, certificate), daemon=True)
    writing.start()
    writing.join(PATIENCE_S)
    assert not writing.is_alive()
    assert on_disk(tmp_path) == as_written(certificate)


def test_equal_files_are_left_alone_but_for_their_mode(
    certificate: Certificate, tmp_path: Path
) -> None:
    write_files(OutputFilesConfig(directory=tmp_path, mode=0o644), certificate)
    before = {file.name: file.stat().st_ino for file in tmp_path.iterdir()}
    assert write_files(OutputFilesConfig(directory=tmp_path), certificate) == ()
    assert {file.name: file.stat().st_ino for file in tmp_path.iterdir()} == before
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


async def test_files_follow_the_rotation_with_no_other_subscriber(
    certificates: Certificates, authority: FakeAuthority, clock: ManualClock, tmp_path: Path
) -> None:
    async with output_files(OutputFilesConfig(directory=tmp_path), certificates, clock=clock):
        for _ in range(3):
            authority.change_root()
            expected = as_written(await certificates.renew())
            await wait_until(clock, partial(is_on_disk, tmp_path, expected))


async def test_what_cannot_be_written_is_reported_and_tried_again(
    certificates: Certificates,
    clock: ManualClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory = tmp_path / "certs"
    put_in_the_way(directory)
    async with output_files(OutputFilesConfig(directory=directory), certificates, clock=clock):
        await wait_until(clock, lambda: bool(caplog.records))
        assert [(r.levelno, r.message) for r in caplog.records if r.levelno >= logging.WARNING] == [
            (logging.WARNING, "certificate files not written, trying again")
        ]
        directory.unlink()
        await clock.advance(1)
        await wait_until(clock, (directory / "cert-chain.pem").is_file)
    assert certificates.latest is not None
    assert on_disk(directory) == as_written(certificates.latest)


def put_in_the_way(path: Path) -> None:
    path.write_text("a file where the directory should be")


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(
    certificate: Certificate, tmp_path: Path
) -> None:
    (tmp_path / "cert-chain.pem").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_files(OutputFilesConfig(directory=tmp_path), certificate)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("atomic", [False, True])
async def test_on_a_disk_with_room_for_a_part_the_files_stay_a_pair_until_there_is_more(
    certificates: Certificates,
    clock: ManualClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    atomic: bool,
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        config = OutputFilesConfig(directory=disk.path / "certs", atomic=atomic)
        async with output_files(config, certificates, clock=clock):
            before = certificates.latest
            assert before is not None
            await wait_until(clock, lambda: is_on_disk(config.directory, as_written(before)))
            disk.fill(but_bytes=4096)
            await clock.advance(3600)
            await wait_until(clock, lambda: "certificate files not written" in caplog.text)
            assert certificates.latest is not before
            assert on_disk(config.directory) == as_written(before)
            disk.free()
            await clock.advance(120)

            def latest_is_on_disk() -> bool:  # another one may have come meanwhile
                latest = certificates.latest
                return latest is not None and is_on_disk(config.directory, as_written(latest))

            await wait_until(clock, latest_is_on_disk)
            written = on_disk(config.directory)
            disk.make_read_only()
            caplog.clear()
            await clock.advance(3600)
            await wait_until(clock, lambda: "certificate files not written" in caplog.text)
            assert on_disk(config.directory) == written
            assert {getattr(each, "reason", None) for each in caplog.records} >= {
                "Read-only file system"
            }
            disk.make_writable()


async def test_an_output_directory_whose_mount_hangs_is_reported_and_written_once_it_answers(
    certificates: Certificates,
    certificate: Certificate,
    clock: ManualClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads = set(threading.enumerate())
    directory = tmp_path / "mount"
    directory.mkdir()
    with hanging_mount(directory):
        async with output_files(OutputFilesConfig(directory=directory), certificates, clock=clock):
            await until(
                lambda: "certificate files not written, trying again" in caplog.messages,
                what="the failure is reported",
            )
    assert "its file system did not answer" in str(getattr(caplog.records[-1], "reason", ""))
    for each in set(threading.enumerate()) - threads:
        each.join()
    async with output_files(OutputFilesConfig(directory=directory), certificates, clock=clock):
        await until(lambda: is_on_disk(directory, as_written(certificate)), what="they are there")
