"""Writes log records where they belong, and when that can't take them, says so later.

Python's own handler writes a traceback of two dozen lines for each record that a full disk refuses,
to the same disk, and keeps what it could not write until the process ends with exit code 120.
"""

import logging
import os
from typing import TextIO


class LogHandler(logging.Handler):
    """Writes each record at once; what is refused is lost, counted, and told with the next one."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lost = 0
        self._reason = ""
        self._is_mid_line = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises for what the stream does."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - whatever a record's arguments do
            self.handleError(record)
            return
        try:
            self._write(line)
            if self._lost:
                self._write(self.format(self._loss()))
                self._lost = 0
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self._lost += 1
            self._reason = (error.strerror if isinstance(error, OSError) else None) or str(error)

    def _loss(self) -> logging.LogRecord:
        record = logging.LogRecord(
            "mesh_lifecycle", logging.WARNING, __file__, 0, "log records were lost", (), None
        )
        record.__dict__ |= {"count": self._lost, "reason": self._reason}
        return record

    def _write(self, line: str) -> None:
        """Write a line to the descriptor: a buffer would keep what is refused."""
        descriptor = _descriptor(self._stream)
        if descriptor is None:
            self._stream.write(f"{line}\n")
            self._stream.flush()
            return
        text = f"\n{line}\n" if self._is_mid_line else f"{line}\n"
        rest = memoryview(text.encode(errors="backslashreplace"))
        while rest:
            written = os.write(descriptor, rest)
            self._is_mid_line = written < len(rest)
            rest = rest[written:]


def _descriptor(stream: TextIO) -> int | None:
    """Return where an open stream writes to; None for one in memory. Raises ValueError, OSError."""
    try:
        descriptor = stream.fileno()
    except OSError:  # io.UnsupportedOperation, which is a ValueError too
        return None
    stream.flush()  # what others wrote comes first
    return descriptor
