"""Which roots an agent believes besides its file's, and what it does with the file they are in."""

import logging
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from mesh_identity import LearnedRoots
from mesh_identity._root_memory import MAX_AGE_S, Root, RootMemory
from mesh_testkit import PATIENCE_S, hanging_mount, small_disk

NOW = 1_800_000_000.0
DAY_S = 86_400.0


class Clock:
    """The time of day, as a test sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def root(*, authority: bool = True, days: int = 3650) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "cluster.local")])
    begin = datetime.fromtimestamp(NOW, UTC) - timedelta(days=1)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


A, B, C, D = (root() for _ in range(4))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "learned-roots.json"


@pytest.fixture
def start(file: Path, clock: Clock) -> Callable[[], LearnedRoots]:
    """Begin as an agent does that has just started."""
    return lambda: LearnedRoots(file, now=clock)


Start = Callable[[], LearnedRoots]


def test_what_a_verified_connection_announced_is_trusted_also_after_a_restart(
    start: Start, file: Path
) -> None:
    agent = start()
    assert agent.further_roots("xds", A) == b""
    assert not file.exists()
    agent.learn("xds", A + B, complete=True)
    assert agent.further_roots("xds", A) == agent.further_roots("ca", A) == B
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert start().further_roots("ca", A) == B
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_nothing_is_learned_over_a_connection_that_the_file_did_not_verify(start: Start) -> None:
    agent = start()
    agent.further_roots("ca", A)
    agent.learn("xds", B, complete=True)
    assert agent.further_roots("ca", A) == b""


def test_nothing_counts_without_a_root_in_the_file(start: Start) -> None:
    agent = start()
    agent.further_roots("xds", A)
    agent.learn("xds", B, complete=True)
    assert agent.further_roots("xds", b"-----BEGIN nonsense") == b""
    assert agent.further_roots("xds", A) == B


def test_a_root_that_was_taken_out_of_the_file_does_not_come_back_by_announcement(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    agent = start()
    agent.further_roots("xds", A + B)
    agent.learn("xds", A + B, complete=True)
    assert agent.further_roots("xds", B) == b""
    agent.learn("xds", A + B, complete=True)
    assert agent.further_roots("xds", B) == b""
    agent = start()
    agent.further_roots("xds", B)
    agent.learn("xds", A + B, complete=True)
    assert agent.further_roots("xds", B) == b""
    message = "the control plane announces a root that was taken out of the root file"
    assert sum(message in record.message for record in caplog.records) == 2  # once a start
    # A root that the operator adds again is trusted through the file.
    assert agent.further_roots("xds", A + B) == b""
    assert agent.further_roots("xds", B) == b""


def test_what_was_learned_under_a_root_that_was_taken_out_goes_with_it(start: Start) -> None:
    agent = start()
    agent.further_roots("xds", A)
    agent.learn("xds", A + B, complete=True)
    assert agent.further_roots("xds", D) == b""
    assert start().further_roots("xds", D) == b""
    # Until it is announced over a connection that the file's present roots verified.
    agent.learn("xds", B + D, complete=True)
    assert agent.further_roots("xds", D) == B


def test_roots_follow_one_another_without_a_change_of_the_file(start: Start) -> None:
    agent = start()
    for announced in (A + B, B + A, B, B + C, C):
        agent.further_roots("xds", A)
        agent.learn("xds", announced, complete=True)
        agent = start()
    assert agent.further_roots("xds", A) == C


def test_an_answers_root_adds_and_an_announcement_replaces(start: Start) -> None:
    agent = start()
    agent.further_roots("xds", A)
    agent.further_roots("ca", A)
    agent.learn("xds", A + B, complete=True)
    agent.learn("ca", C, complete=False)
    assert agent.further_roots("xds", A) == B + C
    agent.learn("xds", b"", complete=True)
    assert agent.further_roots("xds", A) == B + C
    agent.learn("xds", C + A, complete=True)
    assert agent.further_roots("xds", A) == C


def test_a_root_that_is_no_longer_announced_ages_out(start: Start, clock: Clock) -> None:
    agent = start()
    agent.further_roots("xds", A)
    agent.learn("xds", A + B, complete=True)
    for _ in range(3):
        clock.now += MAX_AGE_S - DAY_S
        assert agent.further_roots("xds", A) == B
        agent.learn("xds", A + B, complete=True)
    clock.now += MAX_AGE_S - 1
    assert start().further_roots("xds", A) == B
    clock.now += 2
    assert start().further_roots("xds", A) == b""
    assert agent.further_roots("xds", A) == b""


def test_an_expired_root_is_not_trusted_and_not_learned(start: Start, clock: Clock) -> None:
    agent, short = start(), root(days=11)
    agent.further_roots("xds", A)
    agent.learn("xds", A + short, complete=True)
    assert agent.further_roots("xds", A) == short
    clock.now += 11 * DAY_S
    assert agent.further_roots("xds", A) == b""
    agent.learn("xds", A + short, complete=True)
    assert agent.further_roots("xds", A) == b""


@pytest.mark.parametrize("text", [root(authority=False), b"nonsense", A[:200], b"\xff"])
def test_only_roots_are_learned(start: Start, text: bytes) -> None:
    agent = start()
    agent.further_roots("xds", A)
    agent.learn("xds", text, complete=True)
    assert agent.further_roots("xds", A) == b""


def kept(start: Start) -> None:
    agent = start()
    agent.further_roots("xds", A)
    agent.learn("xds", A + B, complete=True)


def foreign(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(file, 65534, 65534)


def swapped_for_a_link(file: Path) -> None:
    file.rename(file.with_suffix(".real"))
    file.symlink_to(file.with_suffix(".real"))


def swapped_for_a_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (foreign, "it belongs to user 65534, and the agent runs as 0"),
        (lambda file: file.chmod(0o644), "its mode is 644, it must be 600"),
        (lambda file: file.chmod(0o620), "its mode is 620, it must be 600"),
        (swapped_for_a_link, "it can't be opened"),
        (swapped_for_a_fifo, "it is no regular file"),
        (lambda file: file.write_text(file.read_text()[:-40]), "it is damaged"),
        (lambda file: file.write_text("[]"), "it is damaged"),
        (lambda file: file.write_text('{"version": 2}'), "it is damaged"),
        (lambda file: file.write_text(file.read_text().replace("MII", "XXX")), "it is damaged"),
        (lambda file: file.write_text("[" * 100_000), "it is damaged"),
        (lambda file: file.write_text(" " * (1 << 20) + "{}"), "it is over 1048576 bytes"),
    ],
)
def test_a_file_that_is_not_the_agents_own_or_is_damaged_is_refused_and_reported(
    start: Start,
    file: Path,
    spoil: Callable[[Path], None],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept(start)
    spoil(file)
    agent = start()
    assert agent.further_roots("xds", A) == b""
    assert agent.problem is not None
    assert agent.problem.startswith(f"learned roots {file} are not used: {said}")
    assert [each.levelno for each in caplog.records if "not used" in each.message] == [
        logging.ERROR
    ]
    # Newly announced roots take its place.
    agent.learn("xds", A + C, complete=True)
    assert start().further_roots("xds", A) == C
    assert stat.S_IMODE(file.lstat().st_mode) == 0o600
    assert file.lstat().st_uid == os.geteuid()


def test_a_directory_that_can_not_be_written_costs_only_the_memory_of_it(
    start: Start, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.parent.write_text("in the way")
    agent = start()
    agent.further_roots("xds", A)
    agent.learn("xds", A + B, complete=True)
    assert agent.further_roots("xds", A) == B
    assert "learned roots can't be stored" in caplog.text


def test_roots_learned_while_the_disk_is_full_are_stored_once_there_is_room(
    file: Path, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        path = disk.path / file.name
        agent = LearnedRoots(path, now=clock)
        agent.further_roots("xds", A)
        disk.fill()
        for _ in range(3):
            agent.learn("xds", A + B, complete=True)
            assert agent.further_roots("xds", A) == B
        assert caplog.text.count("learned roots can't be stored") == 1
        assert [each.name for each in disk.path.iterdir()] == ["filler"]
        disk.free()
        agent.further_roots("xds", A)
        assert LearnedRoots(path, now=clock).further_roots("xds", A) == B


def test_the_same_word_again_writes_nothing(start: Start, file: Path, clock: Clock) -> None:
    agent = start()
    kept(start)
    agent = start()
    before = file.stat().st_ino, file.stat().st_mtime_ns
    for _ in range(20):
        clock.now += 60
        agent.further_roots("xds", A)
        agent.learn("xds", A + B, complete=True)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before


ROOTS = {name: Root(fingerprint=name, pem=name, not_after=NOW + 90 * DAY_S) for name in "abcdef"}
Bundles = st.sets(st.sampled_from(sorted(ROOTS)), max_size=4)


@given(st.lists(st.tuples(Bundles, Bundles, st.booleans(), st.floats(0, 20 * DAY_S)), max_size=30))
def test_what_counts_was_announced_lately_and_never_taken_out(
    announcements: list[tuple[set[str], set[str], bool, float]],
) -> None:
    memory, now = RootMemory(), NOW
    ever_in_file: set[str] = set()
    announced_at: dict[str, float] = {}
    for in_file, announced, complete, passes_s in announcements:
        now += passes_s
        if not in_file:
            continue
        ever_in_file |= in_file
        memory = memory.with_file(tuple(ROOTS[each] for each in sorted(in_file)), now=now)
        memory = memory.learn(
            tuple(ROOTS[each] for each in sorted(announced)),
            file_roots=frozenset(memory.in_file),
            complete=complete,
            now=now,
        )
        announced_at |= dict.fromkeys(announced, now)
        counts = {each.fingerprint for each in memory.trusted(now=now)}
        assert not counts & ever_in_file
        assert all(now - announced_at[each] <= MAX_AGE_S for each in counts)
        if now < NOW + 90 * DAY_S:
            assert announced - ever_in_file <= counts
        else:
            assert not counts


def test_a_link_to_a_mount_that_hangs_holds_up_nothing(
    start: Start, file: Path, tmp_path: Path
) -> None:
    file.parent.mkdir()
    (tmp_path / "mount").mkdir()
    agent = start()
    with hanging_mount(tmp_path / "mount") as mount:
        file.symlink_to(mount / "file")
        asks = threading.Thread(target=agent.further_roots, args=("xds", A), daemon=True)
        asks.start()
        asks.join(PATIENCE_S)
        assert not asks.is_alive()
    assert agent.problem is not None
    assert "can't be opened" in agent.problem
