"""The files of a hot restart."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from envoy_supervisor.handover._hot_restart_files import (
    can_continue_series,
    clear_failed_child_mark,
    id_file,
    read_base_id,
    release_series,
    release_stale,
    socket_number,
    socket_path,
)

NO_PROCESS = 2**22 + 1  # more than any process id there can be


def series(directory: Path, memory: Path, name: str, base_id: int) -> Path:
    file = directory / name
    file.write_text(str(base_id))
    (memory / f"envoy_shared_memory_{base_id}0").write_bytes(b"")
    (directory / f"{name}_parent_1").write_bytes(b"")
    return file


def names(*directories: Path) -> set[str]:
    return {path.name for directory in directories for path in directory.iterdir()}


def test_what_a_family_leaves_is_removed(tmp_path: Path) -> None:
    run, memory = tmp_path / "run", tmp_path / "shm"
    run.mkdir()
    memory.mkdir()
    series(run, memory, "base-id-7-1", 10)
    file = series(run, memory, "base-id-7-0", 12)
    release_series(file, shared_memory=memory)
    assert names(run, memory) == {"base-id-7-1", "base-id-7-1_parent_1", "envoy_shared_memory_100"}
    release_series(file, shared_memory=memory)


def test_only_what_dead_supervisors_left_is_stale(tmp_path: Path) -> None:
    run, memory = tmp_path / "run", tmp_path / "shm"
    run.mkdir()
    memory.mkdir()
    series(run, memory, f"base-id-{NO_PROCESS}-0", 1)
    series(run, memory, f"base-id-{os.getpid()}-3", 2)
    living = series(run, memory, f"base-id-{os.getppid()}-0", 3)
    (run / "other").write_bytes(b"")
    release_stale(run, shared_memory=memory)
    assert names(run, memory) == {
        living.name,
        f"{living.name}_parent_1",
        "other",
        "envoy_shared_memory_30",
    }
    release_stale(tmp_path / "missing", shared_memory=memory)


def test_the_mark_of_a_failed_child_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_text("5")
    segment = tmp_path / "envoy_shared_memory_50"
    locks = bytes(range(88))
    segment.write_bytes((104).to_bytes(8, "little") + locks + (3).to_bytes(8, "little"))
    clear_failed_child_mark(file, shared_memory=tmp_path)
    assert segment.read_bytes() == ((104).to_bytes(8, "little") + locks + (2).to_bytes(8, "little"))


def test_an_unknown_layout_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_text("5")
    segment = tmp_path / "envoy_shared_memory_50"
    for content in (b"", (112).to_bytes(8, "little") + b"\1" * 104, b"\1" * 104):
        segment.write_bytes(content)
        clear_failed_child_mark(file, shared_memory=tmp_path)
        assert segment.read_bytes() == content
    clear_failed_child_mark(tmp_path / "missing", shared_memory=tmp_path)


def test_a_family_goes_on_only_with_its_shared_memory(socket_dir: Path) -> None:
    file = socket_dir / "id"
    assert not can_continue_series(file, shared_memory=socket_dir)
    file.write_text("5")
    assert not can_continue_series(file, shared_memory=socket_dir)
    (socket_dir / "envoy_shared_memory_50").write_bytes(b"\0" * 96)
    assert not can_continue_series(file, shared_memory=socket_dir)
    (socket_dir / "envoy_shared_memory_50").write_bytes(b"\0" * 104)
    assert can_continue_series(file, shared_memory=socket_dir)


def test_sockets_are_numbered_as_envoy_does() -> None:
    assert socket_number(211342511, 1) == 2113425111
    assert socket_number(221609710, 0) == 18446744071630681420
    assert socket_number(221609710, 1) == 18446744071630681421
    # Three numbers in turn.
    assert [socket_number(1, epoch) for epoch in range(5)] == [10, 11, 12, 10, 11]


def test_a_base_id_that_is_no_number_is_none(tmp_path: Path) -> None:
    file = tmp_path / "id"
    assert read_base_id(file) is None
    file.write_text("x")
    assert read_base_id(file) is None


def test_sockets_get_a_path_that_can_be_bound(socket_dir: Path) -> None:
    file = id_file(socket_dir, 0)
    path = socket_path(file)
    assert path is not None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}_udp_parent_18446744071630681420")
    Path(f"{path}_udp_parent_18446744071630681420").unlink()
    assert socket_path(Path("/", "x" * 100, "base-id-1-0")) is None
