"""Files that others write, over real inotify: swaps, renames, links, halves and errors."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from certclient import (
    Certificate,
    FilesConfig,
    FileSecrets,
    FileSecretsConfig,
    KeyPair,
    RenewalFailed,
    Roots,
    SourceUnavailable,
    file_secrets,
    follow_files,
    mounted_files,
)
from certclient.files._file_secrets import MAX_NAMES
from certclient.files._secret_names import PairFiles, RootFile, files_of
from mesh_filewatch import OnEvent, Unwatch
from mesh_testkit import hanging_mount, until

Issue = Callable[[], Awaitable[Certificate]]
Replace = Callable[[Path, bytes], None]
Replacement = Callable[[Certificate, int], None]

CHAIN, KEY, ROOT = "cert-chain.pem", "key.pem", "root-cert.pem"


def put(directory: Path, certificate: Certificate) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / KEY).write_bytes(certificate.private_key_pem)
    (directory / CHAIN).write_bytes(certificate.chain_pem)
    (directory / ROOT).write_bytes(certificate.trust_bundle_pem)


def mount(volume: Path, certificate: Certificate) -> None:
    """Publish as Kubernetes does: a new directory, and `..data` renamed onto it."""
    generation = Path(tempfile.mkdtemp(prefix="..", dir=volume))
    put(generation, certificate)
    old = volume / "..data"
    before = old.resolve() if old.is_symlink() else None
    (volume / "..data_tmp").symlink_to(generation.name)
    (volume / "..data_tmp").replace(old)
    for name in (CHAIN, KEY, ROOT):
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"..data/{name}")
    if before is not None:
        shutil.rmtree(before)


def named(directory: Path) -> FileSecretsConfig:
    return FileSecretsConfig(
        certificate_path=directory / CHAIN,
        key_path=directory / KEY,
        root_path=directory / ROOT,
    )


@asynccontextmanager
async def following(directory: Path) -> AsyncIterator[FileSecrets]:
    async with asyncio.timeout(60), file_secrets(named(directory)) as secrets:
        yield secrets


async def pair_is(secrets: FileSecrets, certificate: Certificate, name: str = "default") -> None:
    """Wait until a name's pair is this one, and check that no other pair is ever seen broken."""
    async for _ in secrets.statuses():
        pair = secrets.get(name)
        if isinstance(pair, KeyPair) and pair.serial == certificate.serial:
            assert pair.chain_pem == certificate.chain_pem
            assert pair.private_key_pem == certificate.private_key_pem
            return


async def error_is(secrets: FileSecrets, text: str, name: str = "default") -> None:
    async for _ in secrets.statuses():
        if text in (secrets.error(name) or ""):
            return


def in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def by_rename(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.replace(path)


def in_pieces(path: Path, content: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        for at in range(0, len(content), 100):
            file.write(content[at : at + 100])


def delete_and_write(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("replace", [in_place, by_rename, in_pieces, delete_and_write])
@pytest.mark.parametrize("order", [(KEY, CHAIN), (CHAIN, KEY)], ids=["key first", "chain first"])
async def test_a_pair_is_followed_however_it_is_written(
    tmp_path: Path, issue: Issue, replace: Replace, order: tuple[str, str]
) -> None:
    put(tmp_path, await issue())
    async with following(tmp_path) as secrets:
        for _ in range(3):
            new = await issue()
            content = {CHAIN: new.chain_pem, KEY: new.private_key_pem}
            for name in order:
                replace(tmp_path / name, content[name])
            await pair_is(secrets, new)


async def test_a_kubernetes_volume_is_followed_swap_after_swap(
    tmp_path: Path, issue: Issue
) -> None:
    tmp_path = tmp_path / "volume"
    tmp_path.mkdir()
    mount(tmp_path, await issue())
    async with following(tmp_path) as secrets:
        for _ in range(4):
            new = await issue()
            mount(tmp_path, new)
            await pair_is(secrets, new)
        # Twice in a row, without a subscriber waiting in between.
        mount(tmp_path, await issue())
        mount(tmp_path, last := await issue())
        await pair_is(secrets, last)


async def test_a_burst_of_swaps_ends_with_the_last_and_never_shows_a_mixed_pair(
    tmp_path: Path, issue: Issue
) -> None:
    states = [await issue() for _ in range(8)]
    pairs = {each.chain_pem: each.private_key_pem for each in states}
    mount(tmp_path, states[0])
    async with following(tmp_path) as secrets:
        for round_ in range(60):
            mount(tmp_path, states[round_ % 8])
            await asyncio.sleep(0)
            if isinstance(pair := secrets.get("default"), KeyPair):
                assert pairs[pair.chain_pem] == pair.private_key_pem
        await pair_is(secrets, states[59 % 8])


async def test_links_to_links_are_followed_at_every_step(tmp_path: Path, issue: Issue) -> None:
    one, two, three = tmp_path / "a" / "one", tmp_path / "b" / "two", tmp_path / "c" / "three"
    put(one, await issue())
    two.parent.mkdir()
    two.symlink_to("../a/one")
    three.parent.mkdir()
    three.symlink_to(two)
    async with following(three) as secrets:
        put(one, changed := await issue())
        await pair_is(secrets, changed)
        put(tmp_path / "d", elsewhere := await issue())
        (two.parent / "new").symlink_to(tmp_path / "d")
        (two.parent / "new").replace(two)
        await pair_is(secrets, elsewhere)
        three.unlink()
        three.mkdir()
        put(three, replaced := await issue())
        await pair_is(secrets, replaced)


async def test_a_directory_that_is_deleted_and_created_again_is_followed(
    tmp_path: Path, issue: Issue
) -> None:
    directory = tmp_path / "deep" / "certs"
    put(directory, first := await issue())
    async with following(directory) as secrets:
        await pair_is(secrets, first)
        for _ in range(2):
            shutil.rmtree(tmp_path / "deep")
            await error_is(secrets, "does not exist")
            kept = secrets.get("default")
            assert isinstance(kept, KeyPair)
            put(directory, new := await issue())
            await pair_is(secrets, new)
            assert kept.serial != new.serial


async def test_a_directory_that_another_takes_the_place_of_is_followed(
    tmp_path: Path, issue: Issue
) -> None:
    put(tmp_path / "certs", await issue())
    async with following(tmp_path / "certs") as secrets:
        put(tmp_path / "new", new := await issue())
        (tmp_path / "certs").rename(tmp_path / "old")
        (tmp_path / "new").rename(tmp_path / "certs")
        await pair_is(secrets, new)
        put(tmp_path / "certs", newer := await issue())
        await pair_is(secrets, newer)


async def test_files_that_come_after_the_start_are_noticed(tmp_path: Path, issue: Issue) -> None:
    async with following(tmp_path / "not" / "yet") as secrets:
        await error_is(secrets, "does not exist")
        assert secrets.get("default") is None
        put(tmp_path / "not" / "yet", new := await issue())
        await pair_is(secrets, new)


async def looked_again(secrets: FileSecrets) -> None:
    """Have all files looked at, and wait until that is done."""
    passes = secrets.status.passes
    secrets.read_again()
    async for status in secrets.statuses():
        if status.passes > passes:
            return


@asynccontextmanager
async def changes_from_now_on(secrets: FileSecrets) -> AsyncIterator[list[frozenset[str]]]:
    """Gather what a subscriber is sent after what there is at first."""
    collected: list[frozenset[str]] = []
    changes = secrets.changes()
    await anext(changes)

    async def gather() -> None:
        while True:
            collected.append(await anext(changes))

    task = asyncio.create_task(gather())
    try:
        yield collected
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("named_by", ["default", "file-cert"])
async def test_a_changed_pair_is_reported_once_and_a_changed_key_alone_is_not(
    tmp_path: Path, issue: Issue, named_by: str
) -> None:
    """Under the workload's name, and under one that names files."""
    put(tmp_path, await issue())
    put(directory := tmp_path / "other", await issue())
    name = f"file-cert:{directory}/{CHAIN}~{directory}/{KEY}"
    if named_by == "default":
        name, directory = "default", tmp_path
    async with following(tmp_path) as secrets:
        await secrets.fetch(name)
        async with changes_from_now_on(secrets) as names_changed:
            new = await issue()
            by_rename(directory / KEY, new.private_key_pem)
            await error_is(secrets, "not the key of the certificate", name)
            assert names_changed == []
            by_rename(directory / CHAIN, new.chain_pem)
            await pair_is(secrets, new, name)
            await looked_again(secrets)
            assert names_changed == [{name}]


def link_alone(base: Path) -> Replacement:
    """`certs` is a link to the files' directory, replaced by one to another."""

    def replace(certificate: Certificate, number: int) -> None:
        put(base / f"target-{number}", certificate)
        (base / "new").symlink_to(f"target-{number}")
        (base / "new").replace(base / "certs")

    return replace


def link_to_link(base: Path) -> Replacement:
    """`certs` is a link to a link, the second of which is replaced."""
    (base / "certs").symlink_to("inner")

    def replace(certificate: Certificate, number: int) -> None:
        put(base / f"target-{number}", certificate)
        (base / "new").symlink_to(f"target-{number}")
        (base / "new").replace(base / "inner")

    return replace


def linked_files(base: Path) -> Replacement:
    """Each file is a link; their targets are replaced one after the other."""
    (base / "certs").mkdir()
    for name in (CHAIN, KEY, ROOT):
        (base / "certs" / name).symlink_to(f"../target/{name}")
    (base / "target").mkdir()

    def replace(certificate: Certificate, number: int) -> None:
        del number
        by_rename(base / "target" / KEY, certificate.private_key_pem)
        by_rename(base / "target" / CHAIN, certificate.chain_pem)
        by_rename(base / "target" / ROOT, certificate.trust_bundle_pem)

    return replace


def volume(base: Path) -> Replacement:
    """`..data` is swapped, as Kubernetes does."""
    (base / "certs").mkdir()
    return lambda certificate, _: mount(base / "certs", certificate)


def volume_twice(base: Path) -> Replacement:
    """`..data` is swapped away and at once back to something newer."""
    (base / "certs").mkdir()

    def replace(certificate: Certificate, number: int) -> None:
        if number:
            shutil.copytree((base / "certs" / "..data").resolve(), base / "certs" / "..stale")
            (base / "certs" / "..stale-link").symlink_to("..stale")
            (base / "certs" / "..stale-link").replace(base / "certs" / "..data")
        mount(base / "certs", certificate)

    return replace


def deleted_files(base: Path) -> Replacement:
    """The files are removed and written again."""
    (base / "certs").mkdir()

    def replace(certificate: Certificate, number: int) -> None:
        del number
        for file in (base / "certs").iterdir():
            file.unlink()
        put(base / "certs", certificate)

    return replace


def deleted_directory(base: Path) -> Replacement:
    """Their directory is removed and created again."""

    def replace(certificate: Certificate, number: int) -> None:
        del number
        shutil.rmtree(base / "certs", ignore_errors=True)
        put(base / "certs", certificate)

    return replace


@pytest.mark.parametrize(
    "layout",
    [
        link_alone,
        link_to_link,
        linked_files,
        volume,
        volume_twice,
        deleted_files,
        deleted_directory,
    ],
)
async def test_however_files_are_exchanged_each_time_is_reported_once_and_the_next_is_seen(
    tmp_path: Path, issue: Issue, layout: Callable[[Path], Replacement]
) -> None:
    replace = layout(tmp_path)
    replace(await issue(), 0)
    async with following(tmp_path / "certs") as secrets:
        await secrets.fetch("default")
        async with changes_from_now_on(secrets) as names_changed:
            for number in range(1, 4):
                replace(new := await issue(), number)
                await pair_is(secrets, new)
                await looked_again(secrets)
                assert names_changed == [{"default"}] * number


async def test_bogus_content_is_an_error_that_names_the_files_and_the_old_pair_stays(
    tmp_path: Path, issue: Issue
) -> None:
    put(tmp_path, first := await issue())
    async with following(tmp_path) as secrets:
        await pair_is(secrets, first)
        for content, reason in (
            (b"bogus", "no PEM certificate in it"),
            (b"", "is empty"),
            (first.chain_pem[:300], "cut short"),
        ):
            in_place(tmp_path / CHAIN, content)
            await error_is(secrets, reason)
            assert str(tmp_path / CHAIN) in (secrets.error("default") or "")
            await pair_is(secrets, first)
        put(tmp_path, later := await issue())
        await pair_is(secrets, later)
        assert secrets.error("default") is None
        assert secrets.status.load_failures >= 3


async def test_names_of_files_are_served_as_soon_as_they_are_asked_for(
    tmp_path: Path, issue: Issue
) -> None:
    put(tmp_path / "x", other := await issue())
    pair_name = f"file-cert:{tmp_path}/x/{CHAIN}~{tmp_path}/x/{KEY}"
    root_name = f"file-root:{tmp_path}/x/{ROOT}"
    async with following(tmp_path) as secrets:
        assert secrets.get(pair_name) is None
        assert secrets.get(root_name) is None
        await pair_is(secrets, other, pair_name)
        roots = await secrets.fetch(root_name)
        assert isinstance(roots, Roots)
        assert roots.roots_pem == other.trust_bundle_pem
        put(tmp_path / "x", newer := await issue())
        await pair_is(secrets, newer, pair_name)


async def test_a_missing_root_file_is_an_error_until_it_comes(tmp_path: Path, issue: Issue) -> None:
    name = f"file-root:{tmp_path}/later.pem"
    async with following(tmp_path) as secrets:
        with pytest.raises(SourceUnavailable, match=r"later\.pem does not exist"):
            await secrets.fetch(name)
        (tmp_path / "later.pem").write_bytes((await issue()).trust_bundle_pem)
        async for _ in secrets.statuses():
            if isinstance(secrets.get(name), Roots):
                break


async def test_the_roots_of_the_machine_are_served_from_the_first_place_that_has_them(
    tmp_path: Path, issue: Issue
) -> None:
    (tmp_path / "ca.pem").write_bytes((await issue()).trust_bundle_pem)
    places = (tmp_path / "nowhere.pem", tmp_path / "ca.pem", tmp_path)
    config = FileSecretsConfig(system_root_paths=places)
    async with asyncio.timeout(60), file_secrets(config) as secrets:
        roots = await secrets.fetch("file-root:system")
        assert isinstance(roots, Roots)
        assert roots.roots_pem == (tmp_path / "ca.pem").read_bytes()


async def test_a_machine_without_roots_is_reported(tmp_path: Path) -> None:
    config = FileSecretsConfig(system_root_paths=(tmp_path / "nowhere.pem",))
    async with asyncio.timeout(60), file_secrets(config) as secrets:
        with pytest.raises(SourceUnavailable, match=r"nowhere.pem does not exist"):
            await secrets.fetch("file-root:system")


async def test_a_name_that_no_file_stands_behind_is_reported(tmp_path: Path) -> None:
    async with following(tmp_path) as secrets:
        for name in ("kubernetes://secret", "nonsense", "file-cert:only-one", "file-root:", ""):
            assert secrets.get(name) is None
            with pytest.raises(SourceUnavailable, match="is not the name of files"):
                await secrets.fetch(name)


async def test_a_bundle_that_is_being_written_is_awaited_and_in_the_end_taken(
    tmp_path: Path, issue: Issue
) -> None:
    certificate = await issue()
    put(tmp_path, certificate)
    async with following(tmp_path) as secrets:
        await pair_is(secrets, certificate)
        whole = certificate.trust_bundle_pem
        in_place(tmp_path / ROOT, whole + whole[:200])
        await error_is(secrets, "cut short", "ROOTCA")
        assert isinstance(secrets.get("ROOTCA"), Roots)
        # The file is never finished, so its complete certificates are used.
        async for _ in secrets.statuses():
            if secrets.error("ROOTCA") is None:
                break
        roots = secrets.get("ROOTCA")
        assert isinstance(roots, Roots)
        assert roots.roots_pem == whole


def by_its_name(output: Path) -> Path:
    return output


def by_way_of_a_directory_beside(output: Path) -> Path:
    (output.parent / "x").mkdir()
    return output.parent / "x" / ".." / output.name


def by_a_link_to_the_directory(output: Path) -> Path:
    (output.parent / "link").symlink_to(output)
    return output.parent / "link"


def by_links_to_the_files(output: Path) -> Path:
    links = output.parent / "links"
    links.mkdir()
    for name in (CHAIN, KEY, ROOT):
        (links / name).symlink_to(output / name)
    return links


def by_hard_links_to_the_files(output: Path) -> Path:
    links = output.parent / "hard"
    links.mkdir()
    for name in (CHAIN, KEY, ROOT):
        (links / name).hardlink_to(output / name)
    return links


@pytest.mark.parametrize(
    "reached",
    [
        by_its_name,
        by_way_of_a_directory_beside,
        by_a_link_to_the_directory,
        by_links_to_the_files,
        by_hard_links_to_the_files,
    ],
)
async def test_our_own_output_is_never_taken_as_input(
    tmp_path: Path, issue: Issue, reached: Callable[[Path], Path]
) -> None:
    output = tmp_path / "out"
    put(output, await issue())
    put(tmp_path / "in", theirs := await issue())
    directory = reached(output)
    config = replace(named(directory), output_directory=output)
    async with asyncio.timeout(60), file_secrets(config) as secrets:
        for name in ("default", "ROOTCA", f"file-root:{directory / ROOT}"):
            with pytest.raises(SourceUnavailable, match="is our own output, which is never taken"):
                await secrets.fetch(name)
            assert secrets.get(name) is None
        other = f"file-cert:{tmp_path / 'in' / CHAIN}~{tmp_path / 'in' / KEY}"
        pair = await secrets.fetch(other)
        assert isinstance(pair, KeyPair)
        assert pair.serial == theirs.serial


async def test_a_hard_link_to_our_own_output_stays_ours_when_the_output_is_replaced(
    tmp_path: Path, issue: Issue
) -> None:
    output = tmp_path / "out"
    put(output, await issue())
    directory = by_hard_links_to_the_files(output)
    config = replace(named(directory), output_directory=output)
    async with asyncio.timeout(60), file_secrets(config) as secrets:
        await error_is(secrets, "is our own output")
        new = await issue()
        by_rename(output / KEY, new.private_key_pem)
        by_rename(output / CHAIN, new.chain_pem)
        await looked_again(secrets)
        assert secrets.get("default") is None
        for name, content in ((KEY, new.private_key_pem), (CHAIN, new.chain_pem)):
            by_rename(directory / name, content)
        await pair_is(secrets, new)


def test_names_are_read_as_istio_writes_them() -> None:
    config = FileSecretsConfig(certificate_path=Path("c"), key_path=Path("k"), root_path=Path("r"))
    assert files_of("default", config) == PairFiles(Path("c"), Path("k"))
    assert files_of("ROOTCA", config) == RootFile(Path("r"))
    assert files_of("file-cert:/a/b~/c/d", config) == PairFiles(Path("/a/b"), Path("/c/d"))
    assert files_of("file-root:/a", config) == RootFile(Path("/a"))
    for name in ("default", "ROOTCA"):
        assert files_of(name, FileSecretsConfig()) is None
    assert files_of("file-root:/a\0b", config) is None
    assert files_of("file-root:/" + "a" * 5000, config) is None


async def test_files_are_followed_even_where_nothing_can_be_watched(
    tmp_path: Path, issue: Issue, caplog: pytest.LogCaptureFixture
) -> None:
    def watch_directory(directory: str, on_event: OnEvent) -> Unwatch:
        raise OSError(28, f"inotify watch limit reached at {directory}", on_event.__name__)

    put(tmp_path, await issue())
    async with (
        asyncio.timeout(60),
        file_secrets(named(tmp_path), watch_directory=watch_directory) as secrets,
    ):
        put(tmp_path, new := await issue())
        await pair_is(secrets, new)
        assert secrets.status.watch_failures > 0
    messages = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "directory can't be watched, looking at its files now and then until it can" in messages


@pytest.mark.parametrize(
    ("directory", "names"),
    [
        ("var/run/secrets/workload-spiffe-credentials", (CHAIN, KEY, ROOT)),
        (
            "var/run/secrets/workload-spiffe-credentials",
            ("certificates.pem", "private_key.pem", "ca_certificates.pem"),
        ),
        ("etc/certs", (CHAIN, KEY, ROOT)),
    ],
)
def test_mounted_certificates_are_found_only_when_all_three_files_are_there(
    tmp_path: Path, directory: str, names: tuple[str, str, str]
) -> None:
    (tmp_path / directory).mkdir(parents=True)
    paths = [tmp_path / directory / name for name in names]
    for path in paths:
        assert mounted_files(tmp_path) is None
        path.touch()
    assert mounted_files(tmp_path) == FilesConfig(
        certificate_path=paths[0], key_path=paths[1], root_path=paths[2]
    )


@pytest.mark.parametrize("odd", [CHAIN, KEY, ROOT])
async def test_a_fifo_is_reported_and_holds_up_nothing(
    tmp_path: Path, issue: Issue, odd: str
) -> None:
    put(tmp_path, first := await issue())
    put(tmp_path / "other", await issue())
    async with following(tmp_path) as secrets:
        await pair_is(secrets, first)
        (tmp_path / odd).unlink()
        os.mkfifo(tmp_path / odd)
        name = "ROOTCA" if odd == ROOT else "default"
        await error_is(
            secrets,
            f"{tmp_path / odd} cannot be read: it is a FIFO, a regular file is needed",
            name,
        )
        assert secrets.get(name) is not None
        await secrets.fetch(f"file-root:{tmp_path / 'other' / ROOT}")


async def test_a_mount_that_hangs_is_reported_and_holds_up_no_other_secret(
    tmp_path: Path, issue: Issue
) -> None:
    threads = set(threading.enumerate())
    (tmp_path / "mount").mkdir()
    put(tmp_path / "good", await issue())
    hung = f"file-root:{tmp_path / 'mount' / ROOT}"
    good = f"file-cert:{tmp_path / 'good' / CHAIN}~{tmp_path / 'good' / KEY}"
    with hanging_mount(tmp_path / "mount"):
        async with asyncio.timeout(60), file_secrets(FileSecretsConfig()) as secrets:
            with pytest.raises(SourceUnavailable, match="its file system did not answer"):
                await secrets.fetch(hung)
            await secrets.fetch(good)
            for _ in range(3):
                put(tmp_path / "good", new := await issue())
                await pair_is(secrets, new, good)
            assert len(set(threading.enumerate()) - threads) < 10
    for each in set(threading.enumerate()) - threads:
        each.join()


async def test_names_without_a_subscriber_are_forgotten(tmp_path: Path, issue: Issue) -> None:
    put(tmp_path, await issue())
    async with following(tmp_path) as secrets:
        kept = f"file-root:{tmp_path / ROOT}"
        await secrets.fetch(kept)
        for number in range(500):
            secrets.get(f"file-root:/nowhere/{number}")
        secrets.forget_all_but({kept})
        secrets.read_again()
        await until(
            lambda: secrets.status.states.keys() == {"default", "ROOTCA", kept},
            what="the others are forgotten",
        )


async def test_no_more_names_are_taken_on_than_are_bearable(
    tmp_path: Path, issue: Issue, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, await issue())
    async with following(tmp_path) as secrets:
        for number in range(MAX_NAMES + 50):
            secrets.get(f"file-root:/nowhere/{number}")
        with pytest.raises(SourceUnavailable, match="the files of 1000 names are read already"):
            await secrets.fetch(f"file-root:{tmp_path / ROOT}")
        assert caplog.messages.count("certificate files are not read for further names") == 1
        secrets.forget_all_but(())
        await secrets.fetch(f"file-root:{tmp_path / ROOT}")


async def test_a_rotation_with_the_key_first_is_no_failure(
    tmp_path: Path, issue: Issue, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, first := await issue())
    async with following(tmp_path) as secrets:
        await pair_is(secrets, first)
        for _ in range(5):
            put(tmp_path, new := await issue())
            await pair_is(secrets, new)
        assert secrets.status.load_failures == 0
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_files_are_an_issuer_of_certificates_like_any_other(
    tmp_path: Path, issue: Issue
) -> None:
    async with (
        asyncio.timeout(60),
        follow_files(FilesConfig.in_directory(tmp_path / "certs")) as certificates,
    ):
        (tmp_path / "certs").mkdir()
        mount(tmp_path / "certs", first := await issue())
        assert await certificates.wait_for_first() == first
        changes = certificates.changes()
        assert await anext(changes) == first
        mount(tmp_path / "certs", second := await issue())
        assert await anext(changes) == second
        (tmp_path / "certs" / "..data").unlink()
        async for status in certificates.statuses():
            if status.last_error:
                break
        assert certificates.latest == second
        with pytest.raises(RenewalFailed, match="does not exist"):
            await certificates.renew()
