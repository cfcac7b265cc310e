"""Saved files are of one moment and of one owner, or they are refused with the reason."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from accepted import (
    CLUSTER,
    ENDPOINT,
    LISTENER,
    OWNER,
    SECRET,
    difference,
    everything,
    saved_config,
)
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD
from xds_proxy.saved._directory import SavedDirectory
from xds_proxy.saved._file import Encoded, FileList, UnusableFile, decode, encode
from xds_proxy.saved._merging import Change
from xds_proxy.saved._store import LIST, NotSaved, Owner, Store, can_be_saved

NOW = 1_800_000_000.0


def whole(type_url: str, **resources: str) -> list[Change]:
    response = everything(type_url, resources)
    return [Change(STATE_OF_THE_WORLD, response, True, None, frozenset())]


def some(type_url: str, keep: set[str] | None = None, **resources: str) -> Change:
    response = everything(type_url, resources)
    return Change(STATE_OF_THE_WORLD, response, False, keep, frozenset())


def changed(
    type_url: str,
    *,
    keep: set[str] | None = None,
    removed: tuple[str, ...] = (),
    refused: tuple[str, ...] = (),
    **resources: str,
) -> Change:
    response = difference(type_url, resources, removed=removed)
    return Change(DELTA, response, False, keep, frozenset(refused))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state" / "configuration"


@pytest.fixture
def store(directory: Path) -> Iterator[Store]:
    store = Store(saved_config(directory))
    yield store
    store.close()


@pytest.fixture
def saved(store: Store, directory: Path) -> Path:
    """The directory with something saved, that no store has open."""
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="1"), LISTENER: whole(LISTENER)}, current_at=NOW)
    store.close()
    return directory


def load(directory: Path, owner: Owner = OWNER, *, now: float = NOW, **limits: float) -> FileList:
    store = Store(saved_config(directory, **limits))
    try:
        files = store.load(owner, now=now)
        assert files is not None
        return files
    finally:
        store.close()


def refusal(directory: Path, owner: Owner = OWNER, *, now: float = NOW, **limits: float) -> str:
    with pytest.raises(UnusableFile) as caught:
        load(directory, owner, now=now, **limits)
    return str(caught.value)


def file_of(directory: Path, type_url: str) -> Path:
    return directory / load(directory).types[type_url].file


def texts(store: Store, type_url: str) -> dict[str, bytes]:
    return {name: each.body for name, each in (store.resources(type_url) or {}).items()}


def names(store: Store, type_url: str) -> set[str]:
    return set(store.resources(type_url) or {})


def test_what_was_saved_is_found_by_another_store(store: Store, directory: Path) -> None:
    accepted = {CLUSTER: whole(CLUSTER, a="1", b="2"), LISTENER: whole(LISTENER)}
    store.save(OWNER, accepted, current_at=NOW)
    before = texts(store, CLUSTER)
    store.close()
    again = Store(saved_config(directory))
    try:
        files = again.load(OWNER, now=NOW + 60)
        assert files is not None
        assert files.current_at == NOW
        assert {name: entry.resources for name, entry in files.types.items()} == {
            CLUSTER: 2,
            LISTENER: 0,
        }
        assert texts(again, CLUSTER) == before
        assert again.resources(LISTENER) == {}
        assert again.resources(ENDPOINT) is None
    finally:
        again.close()


def test_nothing_saved_is_no_fault(store: Store) -> None:
    assert store.load(OWNER, now=NOW) is None


def test_files_and_directory_are_closed_to_others(saved: Path) -> None:
    assert stat.S_IMODE(saved.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in saved.iterdir()} == {0o600}


def test_a_response_with_all_replaces_and_one_with_some_is_added(store: Store) -> None:
    store.save(OWNER, {ENDPOINT: whole(ENDPOINT, a="", b="")}, current_at=NOW)
    store.save(OWNER, {ENDPOINT: [some(ENDPOINT, {"a", "b", "c"}, c="")]}, current_at=NOW)
    assert names(store, ENDPOINT) == {"a", "b", "c"}
    store.save(OWNER, {ENDPOINT: [some(ENDPOINT, {"a", "c"}, c="")]}, current_at=NOW)
    assert names(store, ENDPOINT) == {"a", "c"}
    store.save(OWNER, {ENDPOINT: whole(ENDPOINT, d="")}, current_at=NOW)
    assert names(store, ENDPOINT) == {"d"}


def test_delta_adds_removes_and_keeps_what_envoy_has(store: Store) -> None:
    first = changed(CLUSTER, keep={"a", "b", "c"}, a="1", b="1", c="1")
    store.save(OWNER, {CLUSTER: [first]}, current_at=NOW)
    second = changed(CLUSTER, keep={"a", "b"}, removed=("c",), b="2")
    store.save(OWNER, {CLUSTER: [second]}, current_at=NOW)
    found = store.resources(CLUSTER) or {}
    assert {name: each.version for name, each in found.items()} == {"a": "1", "b": "2"}


def test_a_resource_that_envoy_refused_is_not_saved_and_its_last_good_one_stays(
    store: Store,
) -> None:
    store.save(OWNER, {CLUSTER: [changed(CLUSTER, keep={"a"}, a="1")]}, current_at=NOW)
    bad = changed(CLUSTER, keep={"a", "b"}, refused=("a",), a="bad", b="1")
    store.save(OWNER, {CLUSTER: [bad]}, current_at=NOW)
    found = store.resources(CLUSTER) or {}
    assert {name: each.version for name, each in found.items()} == {"a": "1", "b": "1"}


def test_what_envoy_has_from_before_is_not_taken_for_saved(store: Store) -> None:
    with pytest.raises(NotSaved, match=r"Envoy has 1 resources of .*Cluster that came before"):
        store.save(OWNER, {CLUSTER: [changed(CLUSTER, keep={"a", "b"}, b="1")]}, current_at=NOW)


def test_secrets_are_never_saved() -> None:
    assert not can_be_saved(SECRET)
    assert not can_be_saved("type.googleapis.com/envoy.api.v2.auth.Secret")
    assert not can_be_saved("type.googleapis.com/..")
    assert not can_be_saved("type.googleapis.com/" + "x" * 1000)
    assert not can_be_saved("")
    assert can_be_saved(CLUSTER)


def test_a_resource_with_a_key_in_it_is_left_out_and_reported(
    store: Store, directory: Path
) -> None:
    key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n"
    outcome = store.save(OWNER, {CLUSTER: whole(CLUSTER, a=key, b="")}, current_at=NOW)
    assert outcome.withheld == {CLUSTER: ("a",)}
    assert names(store, CLUSTER) == {"b"}
    assert not any(b"MHcCAQEE" in path.read_bytes() for path in directory.iterdir())


def test_files_that_are_not_needed_any_more_are_removed(store: Store, directory: Path) -> None:
    for number in range(3):
        store.save(OWNER, {CLUSTER: whole(CLUSTER, a=str(number))}, current_at=NOW)
    assert len(list(directory.iterdir())) == 2


def test_an_unchanged_configuration_is_not_written_again(store: Store, directory: Path) -> None:
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="1")}, current_at=NOW)
    before = {path.name: path.stat().st_ino for path in directory.iterdir()}
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="1")}, current_at=NOW)
    assert {path.name: path.stat().st_ino for path in directory.iterdir()} == before


@pytest.mark.parametrize("type_url", [None, CLUSTER])
def test_a_file_that_is_cut_short_is_refused(saved: Path, type_url: str | None) -> None:
    path = saved / LIST if type_url is None else file_of(saved, type_url)
    path.write_bytes(path.read_bytes()[:-7])
    assert f"{path.name}: it is damaged or cut short" in refusal(saved)


@pytest.mark.parametrize("type_url", [None, CLUSTER, LISTENER])
def test_a_flipped_bit_is_refused_wherever_it_is(saved: Path, type_url: str | None) -> None:
    path = saved / LIST if type_url is None else file_of(saved, type_url)
    whole_file = path.read_bytes()
    for place in range(0, len(whole_file), 7):
        flipped = bytearray(whole_file)
        flipped[place] ^= 4
        path.write_bytes(bytes(flipped))
        assert path.name in refusal(saved)


def test_a_missing_file_is_refused_with_the_others(saved: Path) -> None:
    path = file_of(saved, CLUSTER)
    path.unlink()
    assert refusal(saved) == f"{path.name}: it is missing"


def test_a_whole_file_of_another_moment_is_refused(saved: Path) -> None:
    path, other = file_of(saved, CLUSTER), file_of(saved, LISTENER)
    path.write_bytes(other.read_bytes())
    assert refusal(saved) == f"{path.name}: it is not the one that belongs to the others"


def test_a_list_that_names_a_file_elsewhere_is_refused(saved: Path, tmp_path: Path) -> None:
    header = dict(decode((saved / LIST).read_bytes()).header)
    (tmp_path / "elsewhere").write_bytes(b"secret")
    types = header["types"]
    assert isinstance(types, dict)
    for name in ("../../elsewhere", "/etc/passwd", "..", "", LIST + "/x"):
        types[CLUSTER]["file"] = name
        (saved / LIST).write_bytes(b"".join(encode(header).parts))
        assert "that is no name of a saved file" in refusal(saved)


@pytest.mark.parametrize(
    ("fact", "value"),
    [("identity", "spiffe://other/ns/shop/sa/cart"), ("node id", "b"), ("more", "x")],
)
def test_what_was_saved_for_another_workload_is_refused(saved: Path, fact: str, value: str) -> None:
    other = Owner({**OWNER.facts, fact: value}, OWNER.control_planes)
    assert "it was saved for another workload" in refusal(saved, other)
    assert value in refusal(saved, other)


def test_one_of_several_control_planes_is_enough_and_another_is_refused(saved: Path) -> None:
    assert load(saved, Owner(OWNER.facts, ("new:15012", "istiod:15012")))
    other = Owner(OWNER.facts, ("elsewhere:15012",))
    assert refusal(saved, other) == "it came from another control plane, 'istiod:15012'"


def test_what_is_too_old_is_refused(saved: Path) -> None:
    assert load(saved, now=NOW + 3600)
    assert "it is too old: it was current 3601 s ago" in refusal(saved, now=NOW + 3601)


def test_a_clock_that_was_set_back_a_little_is_no_fault_and_a_lot_is(saved: Path) -> None:
    assert load(saved, now=NOW - 3600)
    assert "in the future" in refusal(saved, now=0.0)


def test_more_than_the_limits_is_refused(saved: Path) -> None:
    assert "bytes, and at most 300 count" in refusal(saved, max_bytes=300)


def test_too_much_is_not_saved(directory: Path) -> None:
    store = Store(saved_config(directory, max_bytes=1000, max_resources=3))
    try:
        with pytest.raises(NotSaved, match="bytes, and at most 1000 are saved"):
            store.save(OWNER, {CLUSTER: whole(CLUSTER, a="x" * 2000)}, current_at=NOW)
        many = whole(CLUSTER, a="", b="", c="", d="")
        with pytest.raises(NotSaved, match="4 resources, and at most 3 are saved"):
            store.save(OWNER, {CLUSTER: many}, current_at=NOW)
    finally:
        store.close()


def test_after_changes_were_lost_only_a_whole_response_is_saved(store: Store) -> None:
    store.save(OWNER, {ENDPOINT: whole(ENDPOINT, a="", b="")}, current_at=NOW)
    store.remove()
    with pytest.raises(NotSaved):
        store.save(OWNER, {ENDPOINT: [some(ENDPOINT, {"a", "b"}, a="")]}, current_at=NOW)
    store.save(OWNER, {ENDPOINT: [some(ENDPOINT, {"a", "b"}, a="", b="")]}, current_at=NOW)
    store.save(OWNER, {ENDPOINT: [some(ENDPOINT, {"a", "b", "c"}, a="")]}, current_at=NOW)
    assert names(store, ENDPOINT) == {"a", "b"}


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666])
def test_a_file_that_others_could_have_written_or_read_is_refused(saved: Path, mode: int) -> None:
    path = file_of(saved, CLUSTER)
    path.chmod(mode)
    assert f"its mode is {mode:o}, it must be 600" in refusal(saved)


def test_a_directory_that_others_can_enter_is_refused_until_it_is_written(
    saved: Path, store: Store
) -> None:
    saved.chmod(0o755)
    assert "its mode is 755, it must be 700" in refusal(saved)
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="2")}, current_at=NOW)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(saved: Path) -> None:
    os.chown(file_of(saved, CLUSTER), 12345, -1)
    assert "it belongs to user 12345, and the agent runs as 0" in refusal(saved)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_directory_of_another_user_is_neither_read_nor_written(saved: Path, store: Store) -> None:
    os.chown(saved, 12345, -1)
    assert "it belongs to user 12345" in refusal(saved)
    with pytest.raises(UnusableFile, match="it belongs to user 12345"):
        store.save(OWNER, {CLUSTER: whole(CLUSTER)}, current_at=NOW)


def test_a_link_a_fifo_and_a_directory_are_refused(saved: Path, tmp_path: Path) -> None:
    path = file_of(saved, CLUSTER)
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(moved)
    assert "it is a link" in refusal(saved)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "it is no regular file" in refusal(saved)
    path.unlink()
    path.mkdir(mode=0o700)
    assert "it is no regular file" in refusal(saved)


def test_a_link_in_the_place_of_the_directory_is_refused(saved: Path, store: Store) -> None:
    moved = saved.rename(saved.with_name("moved"))
    saved.symlink_to(moved)
    assert refusal(saved).startswith(
        "the directory is not used: it is a link; it must be a directory"
    )
    with pytest.raises((UnusableFile, OSError)):
        store.save(OWNER, {CLUSTER: whole(CLUSTER)}, current_at=NOW)


def test_two_agents_do_not_have_one_directory(saved: Path, store: Store) -> None:
    store.save(OWNER, {CLUSTER: whole(CLUSTER)}, current_at=NOW)
    other = Store(saved_config(saved))
    for attempt in (
        lambda: other.load(OWNER, now=NOW),
        lambda: other.save(OWNER, {CLUSTER: whole(CLUSTER, b="")}, current_at=NOW),
    ):
        with pytest.raises(OSError, match="another agent has this directory"):
            attempt()
    store.close()
    assert other.load(OWNER, now=NOW) is not None
    other.close()


def test_a_directory_that_was_removed_is_created_again(saved: Path, store: Store) -> None:
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="1")}, current_at=NOW)
    for path in saved.iterdir():
        path.unlink()
    saved.rmdir()
    with pytest.raises(NotSaved, match="has gone from the directory"):
        store.save(OWNER, {LISTENER: whole(LISTENER, a="2")}, current_at=NOW)
    store.remove()
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="2")}, current_at=NOW)
    store.close()
    assert load(saved).types[CLUSTER].resources == 1


def test_what_an_agent_left_that_was_killed_while_it_wrote_does_no_harm(
    saved: Path, store: Store
) -> None:
    (saved / f"{LIST}.part").write_bytes(b"half")
    (saved / "other-file").write_bytes(b"left")
    assert load(saved).types.keys() == {CLUSTER, LISTENER}
    store.save(OWNER, {CLUSTER: whole(CLUSTER, a="3")}, current_at=NOW)
    assert not (saved / f"{LIST}.part").exists()
    assert not (saved / "other-file").exists()


class _FullDisk(SavedDirectory):
    """Writes so many files, and then the disk is full in the middle of one."""

    files_left = 0

    def write(self, name: str, parts: object) -> None:
        if not self.files_left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.files_left -= 1
        super().write(name, parts)  # type: ignore[arg-type]


@pytest.mark.parametrize("files_left", [0, 1, 2])
def test_a_full_disk_leaves_what_was_saved(saved: Path, store: Store, files_left: int) -> None:
    before = texts_of(saved)
    full = _FullDisk(saved)
    full.files_left = files_left
    store._directory = full
    store.load(OWNER, now=NOW)
    changes = {CLUSTER: whole(CLUSTER, a="new"), LISTENER: whole(LISTENER, l="new")}
    with pytest.raises(OSError, match="No space left"):
        store.save(OWNER, changes, current_at=NOW + 1)
    full.close()
    assert load(saved).current_at == NOW
    assert texts_of(saved) == before


def texts_of(directory: Path) -> dict[str, bytes]:
    store = Store(saved_config(directory))
    try:
        store.load(OWNER, now=NOW)
        return texts(store, CLUSTER)
    finally:
        store.close()


def test_an_encoded_file_is_as_long_as_it_says() -> None:
    file: Encoded = encode({"a": 1}, [b"body"])
    assert file.size == len(b"".join(file.parts))
