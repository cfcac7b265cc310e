from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from mesh_local import StateError
from mesh_local.asking._logs import log_lines

ENVOY = "2026-01-01T00:00:00.000Z\tinfo\tenvoy main\tstarting"
AGENT = "2026-01-01T00:00:00.000Z\tinfo\tmesh_agent\tready"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "backend-1.log").write_text("one\ntwo\nthree\n")
    (tmp_path / "backend-2.log").write_text("other\n")
    (tmp_path / "backend-1.agent.log").write_text(f"{AGENT}\n{ENVOY}\n")
    (tmp_path / "control-plane.log").write_text("")
    return tmp_path


@pytest.fixture
def read(folder: Path) -> Callable[..., list[tuple[str, bytes]]]:
    def lines(*names: str, count: int = 20) -> list[tuple[str, bytes]]:
        return [*log_lines(folder, names, count=count, follow=False)]

    return lines


Read = Callable[..., list[tuple[str, bytes]]]


def test_the_last_lines_of_one_log(read: Read) -> None:
    assert read("backend-1", count=2) == [("backend-1", b"two"), ("backend-1", b"three")]


def test_a_workload_s_name_means_each_replica(read: Read) -> None:
    assert {name for name, _ in read("backend")} == {"backend-1", "backend-2"}


def test_without_a_name_all_logs_are_meant(read: Read) -> None:
    assert {name for name, _ in read()} == {"backend-1", "backend-2", "backend-1.agent"}


def test_an_envoy_s_lines_are_distinguished_from_its_agent_s(read: Read) -> None:
    assert read("backend.envoy") == [("backend-1.envoy", ENVOY.encode())]
    assert read("backend-1.agent") == [("backend-1.agent", AGENT.encode())]


def test_the_last_lines_are_counted_among_those_that_are_meant(read: Read, folder: Path) -> None:
    log = folder / "backend-1.agent.log"
    log.write_text(f"{ENVOY}\n" + f"{AGENT}\n" * 50)
    assert read("backend.envoy", count=5) == [("backend-1.envoy", ENVOY.encode())]


def test_a_line_without_an_end_is_shown(read: Read, folder: Path) -> None:
    (folder / "backend-1.log").write_text("one\ntwo")
    assert [line for _, line in read("backend-1")] == [b"one", b"two"]


def test_a_name_that_no_log_has_is_reported(read: Read) -> None:
    with pytest.raises(StateError, match='there is no log "bakend-1"; did you mean "backend-1"'):
        read("bakend-1")


def test_what_comes_is_followed_also_in_the_log_of_another_run(folder: Path) -> None:
    following = log_lines(folder, ["backend"], count=1, follow=True)
    assert [*islice(following, 2)] == [("backend-1", b"three"), ("backend-2", b"other")]
    (folder / "backend-3.log").write_text("of a new replica\n")
    assert next(following) == ("backend-3", b"of a new replica")
    with (folder / "backend-2.log").open("a") as log:
        log.write("half")
    (folder / "backend-3.log").unlink()
    with (folder / "backend-2.log").open("a") as log:
        log.write(" and half\n")
    assert next(following) == ("backend-2", b"half and half")
    new = folder / "new"
    new.write_text("again\nand again\n")
    new.replace(folder / "backend-1.log")
    assert [*islice(following, 2)] == [("backend-1", b"again"), ("backend-1", b"and again")]
