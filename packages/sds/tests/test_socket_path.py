import logging
import socket
import stat
from pathlib import Path

import pytest

from mesh_sds import SdsConfig, SocketUnusable, serving
from mesh_sds.testing import FakeSecrets


async def serve(path: Path) -> tuple[int, int]:
    """Serve for a moment; return the modes of the directory and the socket."""
    async with serving(SdsConfig(socket_path=path), FakeSecrets()):
        return mode_of(path.parent), mode_of(path)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_directory_and_socket_are_closed_to_others(socket_dir: Path) -> None:
    path = socket_dir / "run" / "secrets" / "socket"
    assert await serve(path) == (0o700, 0o600)
    assert not path.exists()


async def test_an_open_directory_is_kept_and_logged(
    socket_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = socket_dir / "mounted"
    directory.mkdir()
    directory.chmod(0o777)
    assert await serve(directory / "socket") == (0o777, 0o600)
    records = [r for r in caplog.records if r.name == "mesh_sds"]
    assert [(r.levelno, vars(r)["mode"]) for r in records] == [(logging.WARNING, "0777")]


async def test_a_stale_socket_is_replaced(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert await serve(path) == (0o700, 0o600)


async def test_a_served_socket_is_left_alone(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        with pytest.raises(SocketUnusable, match="another process listens on it"):
            await serve(path)
        assert path.is_socket()
    path.unlink()


async def test_another_file_at_the_path_is_named_and_kept(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    path.mkdir()
    with pytest.raises(SocketUnusable, match="socket is in the way"):
        await serve(path)
    assert path.is_dir()


async def test_a_path_too_long_for_a_socket_is_named_with_its_length(socket_dir: Path) -> None:
    with pytest.raises(SocketUnusable, match="is 200 bytes long"):
        await serve(socket_dir / ("x" * (200 - len(str(socket_dir)) - 1)))
