"""The file of a Unix socket."""

import os
import socket
import stat
from pathlib import Path

import pytest

from mesh_listening import (
    ListenError,
    SocketFile,
    inspect_socket_path,
    listening_at,
    prepare_socket_path,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directory_and_socket_are_closed_to_others_and_the_file_goes_with_the_block(
    socket_path: Path,
) -> None:
    umask = os.umask(0)
    try:
        with listening_at(socket_path):
            assert (mode_of(socket_path.parent), mode_of(socket_path)) == (0o700, 0o600)
            assert inspect_socket_path(socket_path) is SocketFile.LISTENING
    finally:
        os.umask(umask)
    assert inspect_socket_path(socket_path) is SocketFile.ABSENT


def test_a_dead_socket_is_replaced(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert inspect_socket_path(path) is SocketFile.DEAD
    with listening_at(path):
        assert inspect_socket_path(path) is SocketFile.LISTENING


def test_the_stop_of_an_older_server_keeps_the_socket_of_a_newer_one(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with listening_at(path):
        path.unlink()
        younger = socket.socket(socket.AF_UNIX)
        younger.bind(str(path))
        younger.listen()
    with younger:
        assert inspect_socket_path(path) is SocketFile.LISTENING
    path.unlink()


def test_a_socket_in_use_is_kept_also_when_its_backlog_is_full(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with listening_at(path, backlog=0), socket.socket(socket.AF_UNIX) as first:
        first.connect(str(path))
        with pytest.raises(ListenError, match="in use: another process listens on it"):
            prepare_socket_path(path)
        assert path.is_socket()


@pytest.mark.parametrize("thing", ["file", "directory", "dangling link"])
def test_another_file_at_the_path_is_named_and_kept(socket_dir: Path, thing: str) -> None:
    path = socket_dir / "socket"
    match thing:
        case "file":
            path.write_text("mine")
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to("nowhere")
    with pytest.raises(ListenError, match="is in the way"):
        prepare_socket_path(path)
    assert path.is_symlink() or path.exists()


def test_a_file_where_the_directory_should_be_is_named(socket_dir: Path) -> None:
    (socket_dir / "run").write_text("")
    with pytest.raises(ListenError, match=r"cannot make the socket directory .*/run"):
        prepare_socket_path(socket_dir / "run" / "socket")


def test_a_path_too_long_for_a_socket_is_named_with_its_length(socket_dir: Path) -> None:
    path = socket_dir / ("x" * (108 - len(str(socket_dir)) - 1))
    with pytest.raises(ListenError, match="is 108 bytes long, at most 107"):
        prepare_socket_path(path)
    with listening_at(path.with_name(path.name[1:])):
        pass
