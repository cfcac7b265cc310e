"""Files that change as one."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from certclient import (
    Certificate,
    FilesConfig,
    OutputFilesConfig,
    RotationConfig,
    follow_files,
    keep_fresh,
    output_files,
    write_files,
)
from certclient.testing import FakeAuthority

Issue = Callable[[], Awaitable[Certificate]]
NAMES = ("cert-chain.pem", "key.pem", "root-cert.pem")


def held(directory: Path) -> tuple[bytes, ...]:
    return tuple((directory / name).read_bytes() for name in NAMES)


def contents(certificate: Certificate) -> tuple[bytes, ...]:
    return certificate.chain_pem, certificate.private_key_pem, certificate.trust_bundle_pem


def modes(directory: Path) -> set[int]:
    return {stat.S_IMODE((directory / name).stat().st_mode) for name in NAMES}


async def test_key_chain_and_roots_change_by_one_rename(tmp_path: Path, issue: Issue) -> None:
    config = OutputFilesConfig(directory=tmp_path, atomic=True)
    first, second = await issue(), await issue()
    assert sorted(write_files(config, first)) == sorted(NAMES)
    # A reader that holds the generation open keeps it whole while the next is written.
    reader = os.open(tmp_path / "..data", os.O_RDONLY)
    try:
        assert set(write_files(config, second)) >= {"cert-chain.pem", "key.pem"}
        seen = os.open("key.pem", os.O_RDONLY, dir_fd=reader)
        with os.fdopen(seen, "rb") as file:
            assert file.read() == first.private_key_pem
    finally:
        os.close(reader)
    assert held(tmp_path) == contents(second)
    assert modes(tmp_path) == {0o600}


async def test_only_the_current_and_the_last_generation_are_kept(
    tmp_path: Path, issue: Issue
) -> None:
    config = OutputFilesConfig(directory=tmp_path, atomic=True)
    for _ in range(5):
        write_files(config, newest := await issue())
        assert held(tmp_path) == contents(newest)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name for name in names if not name.startswith("..generation-")] == ["..data", *NAMES]
    assert len(names) == 6


async def test_plain_files_become_links_and_stay_readable_throughout(
    tmp_path: Path, issue: Issue
) -> None:
    write_files(OutputFilesConfig(directory=tmp_path), await issue())
    write_files(OutputFilesConfig(directory=tmp_path, atomic=True), new := await issue())
    assert held(tmp_path) == contents(new)
    assert all((tmp_path / name).is_symlink() for name in NAMES)


async def test_equal_content_is_left_alone_but_for_its_mode(tmp_path: Path, issue: Issue) -> None:
    certificate = await issue()
    write_files(OutputFilesConfig(directory=tmp_path, atomic=True, mode=0o644), certificate)
    assert modes(tmp_path) == {0o644}
    before = (tmp_path / "..data").readlink()
    assert write_files(OutputFilesConfig(directory=tmp_path, atomic=True), certificate) == ()
    assert (tmp_path / "..data").readlink() == before
    assert modes(tmp_path) == {0o600}


async def test_what_cannot_be_written_leaves_the_old_generation(
    tmp_path: Path, issue: Issue
) -> None:
    config = OutputFilesConfig(directory=tmp_path, atomic=True)
    write_files(config, first := await issue())
    (tmp_path / "...data.1.link").mkdir()
    (tmp_path / f"...data.{os.getpid()}.link").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_files(config, await issue())
    assert held(tmp_path) == contents(first)
    assert len(list(tmp_path.glob("..generation-*"))) == 1


async def test_our_atomic_files_are_followed_as_any_mounted_volume(
    tmp_path: Path, config: RotationConfig, real_authority: FakeAuthority
) -> None:
    async with (
        asyncio.timeout(60),
        keep_fresh(config, real_authority) as ours,
        output_files(OutputFilesConfig(directory=tmp_path, atomic=True), ours),
        follow_files(FilesConfig.in_directory(tmp_path)) as theirs,
    ):
        assert (await theirs.wait_for_first()).serial == (await ours.wait_for_first()).serial
        changes = theirs.changes()
        await anext(changes)
        renewed = await ours.renew()
        assert await anext(changes) == renewed


async def test_without_atomic_no_generation_and_none_of_their_keys_is_left(
    tmp_path: Path, issue: Issue
) -> None:
    first, second = await issue(), await issue()
    for certificate in (first, second):
        write_files(OutputFilesConfig(directory=tmp_path, atomic=True), certificate)
    write_files(OutputFilesConfig(directory=tmp_path), second)
    assert held(tmp_path) == contents(second)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)
    assert not any((tmp_path / name).is_symlink() for name in NAMES)


async def test_without_atomic_a_volume_of_somebody_else_is_left_alone(
    tmp_path: Path, issue: Issue
) -> None:
    (tmp_path / "..2026_11").mkdir()
    (tmp_path / "..data").symlink_to("..2026_11")
    write_files(OutputFilesConfig(directory=tmp_path), await issue())
    assert (tmp_path / "..data").is_symlink()
    assert (tmp_path / "..2026_11").is_dir()
