import os
from pathlib import Path

import pytest

from mesh_local import StateError
from mesh_local.state._folder import opened, write_file


def test_what_must_last_stays_and_what_is_generated_goes(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as state:
        write_file(state.ca / "ca-key.pem", "key")
        write_file(state.logs / "a.log", "old")
        write_file(state.workload("a") / "x", "old")
    with opened(tmp_path / "state") as state:
        assert (state.ca / "ca-key.pem").read_text() == "key"
        assert list(state.logs.iterdir()) == []
        assert not state.workload("a").exists()
        assert state.path.stat().st_mode & 0o777 == 0o700


def test_shared_memory_of_envoys_that_were_killed_is_given_back(tmp_path: Path) -> None:
    segment = Path(f"/dev/shm/envoy_shared_memory_{os.getpid()}00000000000")
    segment.touch()
    try:
        with opened(tmp_path / "state") as state:
            file = state.workload("a") / f"etc/istio/proxy/base-id-{os.getpid()}-0"
            write_file(file, f"{os.getpid()}0000000000")

        with opened(tmp_path / "state"):
            assert not segment.exists()
    finally:
        segment.unlink(missing_ok=True)


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "state"), pytest.raises(StateError, match="another mesh-local runs"):
        with opened(tmp_path / "state"):
            pytest.fail("opened twice")


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"file/state can't be made: .*--state-dir"):
        with opened(tmp_path / "file" / "state"):
            pytest.fail("opened in a file")


def test_a_written_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "token"
    write_file(path, "one")
    write_file(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
