"""The directory of saved files: only its owner may read or write it, and one agent at a time.

Files are replaced whole: written under another name, synced, renamed, and the directory synced. All
functions block, and are called in a thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from xds_proxy.saved._file import UnusableFile

_PART = ".part"
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


class UnusableDirectory(UnusableFile):
    """The directory can't be used, neither for what is saved nor to save."""


class DirectoryInUse(OSError):
    """Another process has the directory."""


class SavedDirectory:
    """A directory of files that this process alone writes, from the first use until `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: int | None = None

    def close(self) -> None:
        """Let another process have the directory."""
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def read(self, name: str, *, max_bytes: int) -> bytes | None:
        """Return a file's content; None if there is none, or no directory.

        Raises UnusableFile, or OSError.
        """
        if not self._open(create=False) or self._opened is None:
            return None
        try:
            descriptor = os.open(name, _OPEN_FILE, dir_fd=self._opened)
        except FileNotFoundError:
            return None
        except OSError as error:
            # O_NOFOLLOW answers for a link with ELOOP, and O_NONBLOCK for a FIFO with success.
            is_link = (self.path / name).is_symlink()
            said = "it is a link" if is_link else f"it can't be opened: {error.strerror}"
            raise UnusableFile(said) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnusableFile("it is no regular file")
            _check_owner(status)
            if status.st_size > max_bytes:
                raise UnusableFile(f"it has {status.st_size} bytes, more than {max_bytes}")
            return _content(descriptor, max_bytes)
        finally:
            os.close(descriptor)

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return self._open(create=True) and os.access(name, os.F_OK, dir_fd=self._opened)

    def write(self, name: str, parts: Sequence[bytes]) -> None:
        """Replace a file; it is on the disk when this returns. Raises UnusableFile, or OSError."""
        self._open(create=True)
        directory = self._opened
        part = name + _PART
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=directory)  # left by an agent that was killed
        try:
            with os.fdopen(os.open(part, _CREATE, 0o600, dir_fd=directory), "wb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            os.rename(part, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=directory)
            raise
        if directory is not None:
            os.fsync(directory)

    def remove_others(self, keep: Collection[str]) -> None:
        """Remove every file but those in `keep`."""
        if not self._open(create=False) or self._opened is None:
            return
        names = os.listdir(self._opened)  # noqa: PTH208 - by the descriptor, not by a path
        self.remove([name for name in names if name not in keep])

    def remove(self, names: Collection[str]) -> None:
        """Remove these files, as far as they are there."""
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._opened)

    def _open(self, *, create: bool) -> bool:
        """Have the directory open and locked. Returns whether there is one; create: make it."""
        if self._opened is not None and self._is_the_same():
            return True
        self.close()
        if create:
            # The error below says what is in its place.
            with suppress(FileExistsError, NotADirectoryError):
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.path, _OPEN_DIRECTORY)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UnusableDirectory(f"the directory is not used: {self._why_not(error)}") from error
        try:
            self._own(descriptor, create=create)
            _lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._opened = descriptor
        return True

    def _why_not(self, error: OSError) -> str:
        right = f"it must be a directory of user {os.geteuid()} with mode 700, or not be there yet"
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            return f"it can't be opened: {error.strerror}; {right}"
        if self.path.is_symlink():
            return f"it is a link; {right}"
        outermost_first = *reversed(self.path.parents), self.path
        found = next((each for each in outermost_first if not each.is_dir()), self.path)
        return f"{'it' if found == self.path else found} is no directory; {right}"

    def _is_the_same(self) -> bool:
        """Return whether the path still leads to the directory that is open."""
        if self._opened is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._opened), os.lstat(self.path))
        except OSError:
            return False

    def _own(self, descriptor: int, *, create: bool) -> None:
        status = os.fstat(descriptor)
        if create and status.st_uid == os.geteuid() and status.st_mode & 0o077:
            # What is in it is not trusted: each file is checked by itself, and replaced.
            os.fchmod(descriptor, 0o700)
            return
        try:
            _check_owner(status, wanted="700")
        except UnusableFile as error:
            raise UnusableDirectory(f"the directory is not used: {error}") from error


def _check_owner(status: os.stat_result, *, wanted: str = "600") -> None:
    """Raise UnusableFile if another user may have written it, or may read it."""
    if status.st_uid != os.geteuid():
        raise UnusableFile(
            f"it belongs to user {status.st_uid}, and the agent runs as {os.geteuid()}"
        )
    if status.st_mode & 0o077:
        raise UnusableFile(f"its mode is {stat.S_IMODE(status.st_mode):o}, it must be {wanted}")


def _lock(directory: int) -> None:
    """Lock the directory itself, which needs no file in it; raises DirectoryInUse, or OSError.

    The kernel gives the lock back when the descriptor is closed, however the process ends.
    """
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DirectoryInUse(errno.EBUSY, "another agent has this directory") from None


def _content(descriptor: int, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(descriptor, min(_CHUNK, max_bytes + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise UnusableFile(f"it has more than {max_bytes} bytes")
    return b"".join(parts)
