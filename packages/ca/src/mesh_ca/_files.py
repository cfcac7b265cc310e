"""Reads and writes files that hold keys: bounded, atomic, one writing process at a time.

Several files of a directory appear together: they are written to a folder inside it and then moved
up, the file that announces the others last. A process that finds such a folder left over by one
that crashed finishes the move. Files are replaced the same way; there, the renaming of the folder
is the moment from which on the new files count.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from mesh_ca._errors import StorageError
from mesh_filewatch import fetch_bytes, read_bytes

MAX_FILE_BYTES = 1024 * 1024
_STAGING = ".new"
_REPLACEMENT, _READY = ".next", ".ready"
_LOCK = ".lock"


def read_file(path: Path) -> bytes:
    """Return the bytes of a file of at most a megabyte; raises StorageError."""
    try:
        return read_bytes(path, max_bytes=MAX_FILE_BYTES)
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error


def file_exists(path: Path) -> bool:
    """Return whether there is anything at `path`; raises StorageError if that can't be seen."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error
    return True


async def fetch_file(path: Path) -> bytes:
    """Do what `read_file` does, without blocking the event loop."""
    try:
        return await fetch_bytes(path, max_bytes=MAX_FILE_BYTES)
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error


def write_file(path: Path, content: bytes, *, mode: int) -> None:
    """Replace `path` as a whole: readers see the old content or the new, also after a crash."""
    temporary = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        # Created with its mode: between a creation and a chmod anyone could open it.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)  # the umask may have taken bits away
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error


def create_files(
    directory: Path, *, last: str, make: Callable[[], Mapping[str, bytes]], private: frozenset[str]
) -> None:
    """Make the files of `directory` unless the file `last`, which is written last, is there.

    Of several processes one calls `make` and the others wait until it is done. If there are files
    of these names but no `last`, nothing is changed and StorageError raised.
    """
    with _lock(directory):
        staging = directory / _STAGING
        if (directory / last).exists():
            return
        if not (staging / last).exists():
            _discard(staging)
            files = make()
            _refuse_leftovers(directory, files, last)
            staging.mkdir(mode=0o700)
            for name in sorted(files, key=lambda name: name == last):
                write_file(staging / name, files[name], mode=0o600 if name in private else 0o644)
        _publish(staging, directory, last)


@contextmanager
def replacing_files(directory: Path, *, private: frozenset[str]) -> Iterator[dict[str, bytes]]:
    """Replace files of `directory`, all or none, by those that the block puts into the dict.

    No other process makes or replaces files here while the block runs. Raises
    StorageError; then, as after a crash, either all files are the old ones or, from the next
    `finish_replacement` on, all are new.
    """
    with _lock(directory):
        _finish(directory)
        files: dict[str, bytes] = {}
        yield files
        if not files:
            return
        staging = directory / _REPLACEMENT
        _discard(staging)
        staging.mkdir(mode=0o700)
        for name, content in files.items():
            write_file(staging / name, content, mode=0o600 if name in private else 0o644)
        staging.rename(directory / _READY)
        _sync_directory(directory)
        _finish(directory)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """While the block runs, no other process makes or replaces files here; raises StorageError."""
    with _lock(directory):
        _finish(directory)
        yield


def finish_replacement(directory: Path) -> None:
    """Move the files of a replacement that a crash interrupted; raises StorageError."""
    try:
        interrupted = (directory / _READY).is_dir()
    except OSError:  # The next function that reads a file of this directory reports it.
        return
    if interrupted:
        with _lock(directory):
            _finish(directory)


def _finish(directory: Path) -> None:
    ready = directory / _READY
    if ready.exists():
        for file in sorted(ready.iterdir()):
            file.replace(directory / file.name)
        ready.rmdir()
        _sync_directory(directory)


def _refuse_leftovers(directory: Path, names: Mapping[str, bytes], last: str) -> None:
    found = [name for name in sorted(names) if (directory / name).exists()]
    if found:
        raise StorageError(
            f"{directory} holds {', '.join(found)} but no {last}: "
            f"put {last} back, or move the others away to start anew"
        )


def _publish(staging: Path, directory: Path, last: str) -> None:
    for file in sorted(staging.iterdir(), key=lambda file: file.name == last):
        if file.name.startswith("."):  # a write that was cut short
            file.unlink()
            continue
        if file.name == last:
            _sync_directory(directory)
        file.replace(directory / file.name)
    staging.rmdir()
    _sync_directory(directory)


def _discard(staging: Path) -> None:
    if staging.is_dir():
        for file in staging.iterdir():
            file.unlink()
        staging.rmdir()


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StorageError(
                f"{directory} may be written by other users (mode {stat.S_IMODE(mode):04o}), "
                "a directory for keys needs 0700"
            )
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # The kernel releases the lock when the process that holds it ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(
            f"can't write in {directory}: {error.strerror} ({error.filename})"
        ) from error


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
