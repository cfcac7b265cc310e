"""Writes log records to a stream, and reports later how many the stream refused.

For each record that a full disk refuses, Python's own handler writes a traceback of two dozen lines
to the same disk. It also keeps the record in its buffer, and the process then ends with exit code
120.
"""

import logging
import os
from typing import TextIO


class LogHandler(logging.Handler):
    """Writes each record at once; a refused one is lost, counted, and reported after the next."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lost = 0
        self._reason = ""
        self._is_mid_line = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises for an error of the stream."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a record's arguments may raise anything
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
        """Write a line to the descriptor, because a buffer would keep a refused record."""
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
    """Return the stream's descriptor; None if it is in memory. Raises ValueError, OSError."""
    try:
        descriptor = stream.fileno()
    except OSError:  # io.UnsupportedOperation, which is a ValueError too
        return None
    stream.flush()  # so that earlier writes of other code come first
    return descriptor
