import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh_filewatch import FileKeepsChanging, FileTooLarge, NotRegularFile, UnfitFile, read_bytes
from mesh_filewatch._reading import stable_content


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "roots.pem"
    path.write_bytes(b"x" * 3_000_000)

    assert read_bytes(path, max_bytes=3_000_000) == b"x" * 3_000_000


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"content")
    (tmp_path / "link").symlink_to("there")

    assert read_bytes(tmp_path / "link", max_bytes=100) == b"content"


def test_a_file_of_proc_that_says_it_is_empty_is_read() -> None:
    assert read_bytes("/proc/self/stat", max_bytes=10_000).startswith(str(os.getpid()).encode())


def test_more_than_is_allowed_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"12345")

    with pytest.raises(FileTooLarge) as caught:
        read_bytes(path, max_bytes=4)

    assert str(caught.value) == f"{path}: it is larger than 4 bytes, more is not read"


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(FileTooLarge):
        read_bytes("/proc/self/maps", max_bytes=100)


def unix_socket(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    return listening


@pytest.fixture
def oddities(tmp_path: Path) -> Iterator[dict[str, Path]]:
    os.mkfifo(tmp_path / "fifo")
    with unix_socket(tmp_path / "socket"):
        yield {
            "a FIFO": tmp_path / "fifo",
            "a socket": tmp_path / "socket",
            "a directory": tmp_path,
            "a device": Path("/dev/zero"),
        }
    (tmp_path / "socket").unlink()


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a directory", "a device"])
def test_what_is_no_regular_file_is_refused_in_a_sentence(
    oddities: dict[str, Path], kind: str
) -> None:
    with pytest.raises(NotRegularFile) as caught:
        read_bytes(oddities[kind], max_bytes=100)

    assert str(caught.value) == f"{oddities[kind]}: it is {kind}, a regular file is needed"
    assert caught.value.strerror == f"it is {kind}, a regular file is needed"
    assert caught.value.filename == str(oddities[kind])


def test_a_link_to_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")

    with pytest.raises(NotRegularFile):
        read_bytes(tmp_path / "link", max_bytes=100)


def test_a_missing_file_is_what_it_always_was(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read_bytes(tmp_path / "missing", max_bytes=100)

    assert not isinstance(caught.value, UnfitFile)


class Written:
    """A file that somebody writes to while the first reads of it are under way."""

    def __init__(self, path: Path, *, times: int) -> None:
        self.path = path
        self.times = times
        self.descriptor = os.open(path, os.O_RDWR)

    def pread(self, descriptor: int, size: int, start: int) -> bytes:
        content = os.pread(descriptor, size, start)
        if self.times:
            self.times -= 1
            os.pwrite(self.descriptor, b"%4d" % self.times, 0)
        return content


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    (tmp_path / "written").write_bytes(b"first")
    file = Written(tmp_path / "written", times=3)
    try:
        yield file
    finally:
        os.close(file.descriptor)


def test_a_file_that_changes_while_it_is_read_is_read_again(written: Written) -> None:
    content = stable_content(written.descriptor, written.path, 100, pread=written.pread)

    assert content == b"   0t"


def test_a_file_that_changes_each_time_is_reported(written: Written) -> None:
    written.times = 1000

    with pytest.raises(FileKeepsChanging) as caught:
        stable_content(written.descriptor, written.path, 100, pread=written.pread)

    assert str(caught.value) == (
        f"{written.path}: it was changed while it was read, 7 times in a row"
    )


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = len(tuple(Path("/proc/self/fd").iterdir()))

    for _ in range(10):
        with pytest.raises(NotRegularFile):
            read_bytes(tmp_path / "fifo", max_bytes=1)
        with pytest.raises(FileTooLarge):
            read_bytes("/proc/self/stat", max_bytes=1)

    assert len(tuple(Path("/proc/self/fd").iterdir())) == before
