"""Where log lines go: a stream of this process, or a file that others may move away.

A sink has two ways of writing: what can be taken at once, without waiting, and the rest, which may
take as long as the reader or the disk does.
"""

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import NamedTuple, TextIO

_CHUNK_BYTES = select.PIPE_BUF
"""A pipe that is ready for writing has room for this many bytes."""
_WAIT_MS = 1000
_NEWLINE = ord("\n")


class LogTargetError(ValueError):
    """A log file that cannot be written."""


class Rotation(NamedTuple):
    """When a log file is moved aside, and how many of those are kept; zero is no limit."""

    max_bytes: int = 100 << 20
    max_age_days: int = 30
    max_backups: int = 1000


class _Writing:
    """Writes to a descriptor. mid_line: the last byte that was taken ends no line."""

    mid_line = False

    def _write_what_fits(self, descriptor: int, data: bytes) -> bytes:
        """Write as long as nothing has to be waited for; returns the rest."""
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        rest = memoryview(data)
        try:
            while rest and poll.poll(0):
                rest = self._write(descriptor, rest[:_CHUNK_BYTES], rest)
        except BlockingIOError:
            pass
        return bytes(rest)

    def _write_all(self, descriptor: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = self._write(descriptor, rest, rest)
            except BlockingIOError:
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll(_WAIT_MS)

    def _write(self, descriptor: int, part: memoryview, rest: memoryview) -> memoryview:
        written = os.write(descriptor, part)
        if written:
            self.mid_line = part[written - 1] != _NEWLINE
        return rest[written:]


class StreamSink(_Writing):
    """A stream, as stdout; it stays its owner's."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write_now(self, data: bytes) -> bytes:
        """Write what is taken at once; returns the rest. Raises OSError, ValueError."""
        descriptor = _descriptor(self._stream)
        if descriptor is None:
            self._stream.write(data.decode())
            self._stream.flush()
            return b""
        return self._write_what_fits(descriptor, data)

    def write(self, data: bytes) -> None:
        """Write all of it, however long that takes. Raises OSError, ValueError."""
        if (descriptor := _descriptor(self._stream)) is not None:
            self._write_all(descriptor, data)

    def problem(self) -> str | None:
        return None

    def close(self) -> None:
        return None


class FileSink(_Writing):
    """A file that is opened anew when it has been moved or removed, as logrotate does."""

    def __init__(self, path: Path, rotation: Rotation | None = None) -> None:
        self._path = path
        self._rotation = rotation
        self._problem: str | None = None
        self._reported: str | None = None
        self._descriptor = _open(path)

    def write_now(self, data: bytes) -> bytes:
        """Write what is taken at once; a disk takes nothing at once, since it may hang."""
        if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return data
        return self._write_what_fits(self._descriptor, data)

    def write(self, data: bytes) -> None:
        """Write all of it. Raises OSError."""
        self._follow()
        self._write_all(self._descriptor, data)
        if self._rotation is not None:
            self._rotate(self._rotation)

    def problem(self) -> str | None:
        """Return, once, why the file cannot be opened anew; its older one is still written."""
        problem, self._problem = self._problem, None
        if problem is None or problem == self._reported:
            return None  # the line that tells it is written too, and meets the same problem
        self._reported = problem
        return problem

    def close(self) -> None:
        os.close(self._descriptor)

    def _follow(self) -> None:
        try:
            there = self._path.stat()
        except OSError:
            there = None
        ours = os.fstat(self._descriptor)
        if there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
            return
        try:
            new = _open(self._path)
        except LogTargetError as error:
            self._problem = str(error)
            return
        os.close(self._descriptor)
        self._descriptor = new
        self._reported = None
        self.mid_line = False

    def _rotate(self, rotation: Rotation) -> None:
        size = os.fstat(self._descriptor).st_size
        if not 0 < rotation.max_bytes < size:
            return
        when = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
        path = self._path
        to = path.with_name(f"{path.stem}-{when}.{time.time_ns() % 10**9:09d}{path.suffix}")
        try:
            path.rename(to)
        except OSError as error:
            self._problem = f"{path} cannot be moved aside: {error.strerror}"
            return
        self._follow()
        self._remove_old(rotation)

    def _remove_old(self, rotation: Rotation) -> None:
        path = self._path
        pattern = f"{path.stem}-[0-9]*T*.[0-9]*{path.suffix}"
        backups = sorted(path.parent.glob(pattern), reverse=True)
        old = backups[rotation.max_backups :] if rotation.max_backups else []
        oldest = time.time() - rotation.max_age_days * 86400
        for each in backups:
            try:
                if each in old or (rotation.max_age_days and each.stat().st_mtime < oldest):
                    each.unlink()
            except OSError as error:
                self._problem = f"{each} cannot be removed: {error.strerror}"


def _open(path: Path) -> int:
    # Without O_NONBLOCK a FIFO that is not read by anyone would be waited for.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        reason = "no process reads it" if error.errno == errno.ENXIO else error.strerror
        raise LogTargetError(f"{path} cannot be opened for writing: {reason}") from error
    except ValueError as error:  # a NUL in it
        raise LogTargetError(f"{str(path)!r} is no path of a file: {error}") from error


def _descriptor(stream: TextIO) -> int | None:
    """Return the stream's descriptor; None if it is in memory. Raises ValueError, OSError."""
    try:
        descriptor = stream.fileno()
    except OSError:  # io.UnsupportedOperation, which is a ValueError too
        return None
    stream.flush()  # so that earlier writes of other code come first
    return descriptor
