import asyncio
import logging
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from prometheus_client import CollectorRegistry

from mesh_ca import (
    Authority,
    Issued,
    RootPolicy,
    StorageError,
    load_or_create_authority,
    replace_root,
    rotating_authority,
)
from mesh_ca.directory._root_changes import apply_due_steps
from mesh_ca.testing import signing_request
from mesh_testkit import small_disk

CART = "spiffe://cluster.local/ns/shop/sa/cart"
DAY_S = 86400.0
POLICY = RootPolicy(
    lifetime=timedelta(days=100), spread=timedelta(days=2), retirement=timedelta(days=7)
)
Clock = Callable[[], float]


def load(directory: Path, clock: Clock) -> Authority:
    return load_or_create_authority(
        directory, trust_domain="cluster.local", root_lifetime=POLICY.lifetime, clock=clock
    )


def issue(authority: Authority) -> Issued:
    return authority.sign(signing_request()[1], identities=[CART])


def leaf(issued: Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.chain_pem[0])


def roots(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def is_trusted(certificate: x509.Certificate, bundle: bytes) -> bool:
    return any(issued_by(certificate, root) for root in roots(bundle))


def issued_by(certificate: x509.Certificate, root: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, InvalidSignature):
        return False
    return True


def contents(directory: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in directory.iterdir()
        if not file.name.startswith(".")
    }


async def test_root_near_its_end_is_certified_anew_and_old_leaves_verify_against_it(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    authority = load(tmp_path / "ca", clock)
    before, old_leaf = authority.root_pem, leaf(issue(authority))
    changes: list[bytes] = []
    async with rotating_authority(
        tmp_path / "ca",
        authority,
        policy=POLICY,
        clock=clock,
        on_change=lambda: changes.append(authority.root_pem),
    ) as rotating:
        assert not changes
        clock.now += 81 * DAY_S
        assert await rotating.check()
    new, old = roots(authority.root_pem)
    assert changes == [authority.root_pem]
    assert [old] == roots(before)
    assert new.public_key() == old.public_key()
    assert new.not_valid_after_utc - old.not_valid_after_utc == timedelta(days=81)
    old_leaf.verify_directly_issued_by(new)
    issued = issue(authority)
    assert issued.chain_pem[-1] == authority.root_pem
    assert is_trusted(leaf(issued), before)
    assert load(tmp_path / "ca", clock).root_pem == authority.root_pem


async def test_failed_change_leaves_files_and_authority_as_they_were(
    tmp_path: Path, clock: "FakeClock", caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "ca"
    authority = load(directory, clock)
    before, signer = contents(directory), authority.signer
    registry = CollectorRegistry()
    async with rotating_authority(
        directory, authority, policy=POLICY, clock=clock, registry=registry
    ) as rotating:
        clock.now += 81 * DAY_S
        (directory / ".next").write_text("in the way")
        assert not await rotating.check()
        assert rotating.problem is not None
        assert "the root can't be changed" in rotating.problem
        assert registry.get_sample_value("mesh_ca_authority_problem") == 1
        assert contents(directory) == before
        assert authority.signer is signer
        assert issue(authority).chain_pem[-1] == signer.root_pem
        (directory / ".next").unlink()
        assert await rotating.check()
        assert registry.get_sample_value("mesh_ca_authority_problem") == 0
    assert len(roots(authority.root_pem)) == 2
    ours = [record for record in caplog.records if record.name == "mesh_ca"]
    assert [record.message for record in ours if record.levelno == logging.ERROR] == [
        "files of the certificate authority not usable, signing goes on as before"
    ]


@pytest.mark.parametrize("how", ["full", "read-only"])
async def test_root_that_is_due_while_nothing_can_be_written_changes_once_it_can(
    how: str, tmp_path: Path, clock: "FakeClock"
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        directory = disk.path / "ca"
        authority = load(directory, clock)
        before, signer = contents(directory), authority.signer
        async with rotating_authority(directory, authority, policy=POLICY, clock=clock) as rotating:
            clock.now += 81 * DAY_S
            if how == "full":
                disk.fill(but_bytes=8192)
            else:
                disk.make_read_only()
            assert not await rotating.check()
            assert "the root can't be changed" in str(rotating.problem)
            assert contents(directory) == before
            assert authority.signer is signer
            assert issue(authority).chain_pem[-1] == signer.root_pem
            if how == "full":
                disk.free()
            else:
                disk.make_writable()
            assert await rotating.check()
            assert str(rotating.problem) == "None"
            assert len(roots(authority.root_pem)) == 2


@pytest.mark.parametrize("moved", range(5))
def test_change_interrupted_after_the_rename_is_finished_by_the_next_start(
    moved: int, tmp_path: Path, clock: "FakeClock"
) -> None:
    directory = tmp_path / "ca"
    load(directory, clock)
    old = contents(directory)
    replace_root(directory, POLICY, clock=clock)
    clock.now += 2 * DAY_S
    apply_due_steps(directory, POLICY, now=clock())
    new = contents(directory)
    names = ["ca-cert.pem", "ca-key.pem", "cert-chain.pem", "own-root.json", "root-cert.pem"]
    (directory / ".ready").mkdir()
    for name in names[moved:]:  # not there yet when the machine stopped
        (directory / ".ready" / name).write_bytes(new[name])
        (directory / name).write_bytes(old[name])
    load(directory, clock)
    assert contents(directory) == new
    assert not (directory / ".ready").exists()


def test_change_interrupted_before_the_rename_leaves_the_old_files(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    directory = tmp_path / "ca"
    load(directory, clock)
    before = contents(directory)
    (directory / ".next").mkdir()
    (directory / ".next" / "ca-key.pem").write_bytes(b"half")
    load(directory, clock)
    assert apply_due_steps(directory, POLICY, now=clock()) == ()
    assert contents(directory) == before
    replace_root(directory, POLICY, clock=clock)
    assert not (directory / ".next").exists()


async def test_every_leaf_leads_to_a_root_that_the_bundle_held_before(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    """Two workloads that renew daily, never together, talk throughout a replacement."""
    directory = tmp_path / "ca"
    authority = load(directory, clock)
    first_key = roots(authority.root_pem)[0].public_key()
    workloads = {0: issue(authority), 1: issue(authority)}
    async with rotating_authority(directory, authority, policy=POLICY, clock=clock) as rotating:
        replace_root(directory, POLICY, clock=clock)
        for half_day in range(24):
            await rotating.check()
            workloads[half_day % 2] = issue(authority)
            one, other = workloads[0], workloads[1]
            assert is_trusted(leaf(one), other.chain_pem[-1])
            assert is_trusted(leaf(other), one.chain_pem[-1])
            clock.now += DAY_S / 2
    assert [root.public_key() == first_key for root in roots(authority.root_pem)] == [False]
    names = {file.name for file in directory.iterdir()}
    assert not {"next-ca-key.pem", "next-ca-cert.pem"} & names


async def test_new_key_is_private_from_its_first_moment(tmp_path: Path, clock: "FakeClock") -> None:
    directory = tmp_path / "ca"
    load(directory, clock)
    replace_root(directory, POLICY, clock=clock)
    assert stat.S_IMODE((directory / "next-ca-key.pem").stat().st_mode) == 0o600
    clock.now += 2 * DAY_S
    apply_due_steps(directory, POLICY, now=clock())
    assert stat.S_IMODE((directory / "ca-key.pem").stat().st_mode) == 0o600


async def test_replacement_asked_for_by_another_process_is_seen_at_once(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    directory = tmp_path / "ca"
    authority = load(directory, clock)
    changed = asyncio.Event()
    async with rotating_authority(
        directory, authority, policy=POLICY, clock=clock, on_change=changed.set
    ):
        await asyncio.to_thread(replace_root, directory, POLICY, clock=clock)
        await changed.wait()
        assert len(roots(authority.root_pem)) == 2


async def test_steps_are_done_when_they_are_due_however_seldom_it_looks(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    directory = tmp_path / "ca"
    authority = load(directory, clock)
    old = authority.signer.certificate
    moment = timedelta(milliseconds=1500)
    policy = RootPolicy(lifetime=POLICY.lifetime, spread=moment, retirement=moment)
    bundles: list[list[x509.Certificate]] = []
    steps = asyncio.Queue[None]()

    def changed() -> None:
        bundles.append(roots(authority.root_pem))
        clock.now += 2.0
        steps.put_nowait(None)

    async with rotating_authority(
        directory,
        authority,
        policy=policy,
        clock=clock,
        check_interval=timedelta(days=1),
        on_change=changed,
    ):
        replace_root(directory, policy, clock=clock)
        for _ in range(3):
            await steps.get()
    new = authority.signer.certificate
    assert bundles == [[old, new], [new, old], [new]]


async def test_processes_that_share_a_directory_agree_on_each_change(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    directory = tmp_path / "ca"
    one, other = load(directory, clock), load(directory, clock)
    replace_root(directory, POLICY, clock=clock)
    async with (
        rotating_authority(directory, one, policy=POLICY, clock=clock) as first,
        rotating_authority(directory, other, policy=POLICY, clock=clock) as second,
    ):
        for days in (2, 5, 2, 75):
            clock.now += days * DAY_S
            await asyncio.gather(first.check(), second.check())
            await asyncio.gather(first.check(), second.check())
            assert one.signer.same_as(other.signer)
            assert (first.problem, second.problem) == (None, None)
    assert len(roots(one.root_pem)) == 2


def plugged_in(directory: Path, source: Path, clock: Clock) -> bytes:
    """An operator's copy of an authority generated elsewhere; its trust bundle."""
    loaded = load(source, clock)
    directory.mkdir(exist_ok=True)
    for name in ("ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"):
        (directory / name).write_bytes((source / name).read_bytes())
    (directory / "ca-key.pem").chmod(0o600)
    return loaded.root_pem


async def test_plugged_in_authority_is_never_changed_by_us(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    plugged_in(tmp_path / "ca", tmp_path / "made", clock)
    authority = load(tmp_path / "ca", clock)
    before = contents(tmp_path / "ca")
    async with rotating_authority(
        tmp_path / "ca", authority, policy=POLICY, clock=clock
    ) as rotating:
        clock.now += 99 * DAY_S
        assert not await rotating.check()
    assert contents(tmp_path / "ca") == before
    with pytest.raises(StorageError, match="was plugged in: put another there"):
        replace_root(tmp_path / "ca", POLICY, clock=clock)


async def test_authority_put_over_one_of_ours_is_plugged_in(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    authority = load(tmp_path / "ca", clock)
    async with rotating_authority(
        tmp_path / "ca", authority, policy=POLICY, clock=clock
    ) as rotating:
        new = plugged_in(tmp_path / "ca", tmp_path / "other", clock)
        await rotating.check()
        assert authority.root_pem == new
        clock.now += 99 * DAY_S
        await rotating.check()
        assert authority.root_pem == new
        assert rotating.problem is None


async def test_plugged_in_authority_is_read_again_when_kubernetes_swaps_its_files(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    bundles = [plugged_in(tmp_path / f"..{n}", tmp_path / f"made{n}", clock) for n in range(3)]
    directory = tmp_path / "ca"
    directory.mkdir()
    (directory / "..data").symlink_to(tmp_path / "..0")
    for name in ("ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"):
        (directory / name).symlink_to(Path("..data", name))
    authority = load(directory, clock)
    changed = asyncio.Event()
    async with rotating_authority(directory, authority, clock=clock, on_change=changed.set):
        for number in (1, 2):
            (directory / "..data_tmp").symlink_to(tmp_path / f"..{number}")
            (directory / "..data_tmp").rename(directory / "..data")
            await changed.wait()
            changed.clear()
            assert authority.root_pem == bundles[number]
            assert issue(authority).chain_pem[-1] == bundles[number]


async def test_directory_put_in_place_of_another_is_followed(
    tmp_path: Path, clock: "FakeClock"
) -> None:
    plugged_in(tmp_path / "ca", tmp_path / "made", clock)
    new = plugged_in(tmp_path / "new", tmp_path / "other", clock)
    authority = load(tmp_path / "ca", clock)
    async with rotating_authority(tmp_path / "ca", authority, clock=clock) as rotating:
        (tmp_path / "ca").rename(tmp_path / "gone")
        (tmp_path / "new").rename(tmp_path / "ca")
        await rotating.check()
        assert authority.root_pem == new


def without_a_file(directory: Path) -> None:
    (directory / "cert-chain.pem").unlink()


def with_another_key(directory: Path) -> None:
    source = load(directory.parent / "third", lambda: 1_800_000_000.0)
    assert source.root_pem
    (directory / "ca-key.pem").write_bytes((directory.parent / "third/ca-key.pem").read_bytes())


def with_another_root(directory: Path) -> None:
    source = load(directory.parent / "third", lambda: 1_800_000_000.0)
    (directory / "root-cert.pem").write_bytes(source.root_pem)


def half_written(directory: Path) -> None:
    file = directory / "ca-cert.pem"
    file.write_bytes(file.read_bytes()[:200])


def expired(directory: Path) -> None:
    plugged_in(directory, directory.parent / "past", lambda: 1_000_000_000.0)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_a_file, r"can't read .*cert-chain\.pem"),
        (with_another_key, r"ca-key\.pem is not the key of ca-cert\.pem"),
        (with_another_root, r"ca-cert\.pem does not lead to root-cert\.pem"),
        (half_written, r"ca-cert\.pem holds no readable PEM certificate"),
        (expired, r"are valid from 2001-09-09 .* put valid ones there"),
    ],
)
async def test_unusable_files_are_refused_with_the_reason_and_the_old_stay(
    damage: Callable[[Path], None], reason: str, tmp_path: Path, clock: "FakeClock"
) -> None:
    bundle = plugged_in(tmp_path / "ca", tmp_path / "made", clock)
    authority = load(tmp_path / "ca", clock)
    async with rotating_authority(tmp_path / "ca", authority, clock=clock) as rotating:
        damage(tmp_path / "ca")
        assert not await rotating.check()
        assert rotating.problem is not None
        with pytest.raises(StorageError, match=reason):
            raise StorageError(rotating.problem)
        assert issue(authority).chain_pem[-1] == bundle
        assert plugged_in(tmp_path / "ca", tmp_path / "made", clock) == bundle
        await rotating.check()
        assert rotating.problem is None


async def test_bundle_that_drops_the_root_in_use_is_warned_of(
    tmp_path: Path, clock: "FakeClock", caplog: pytest.LogCaptureFixture
) -> None:
    plugged_in(tmp_path / "ca", tmp_path / "made", clock)
    authority = load(tmp_path / "ca", clock)
    async with rotating_authority(tmp_path / "ca", authority, clock=clock) as rotating:
        plugged_in(tmp_path / "ca", tmp_path / "other", clock)
        await rotating.check()
    assert any("has lost the root that was in use" in message for message in caplog.messages)


class FakeClock:
    """The clock of conftest, as the type checker sees it."""

    now: float

    def __call__(self) -> float:
        return self.now
