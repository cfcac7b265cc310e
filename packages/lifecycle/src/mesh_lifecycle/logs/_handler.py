"""Writes log records to a sink without ever waiting for it.

A pipe that is not read, a terminal that is stopped or a disk that hangs would hold up the whole
event loop. What a sink does not take at once waits in memory, up to a limit, for a thread that
lives only as long as there is something to write; what is above the limit is lost and counted.
Records that a full disk refuses are lost and counted too: Python's own handler would write a
traceback of two dozen lines to the same disk for each of them.
"""

import logging
import threading
from collections import deque
from typing import Protocol

MAX_WAITING_BYTES = 1 << 20
FLUSH_S = 2.0


class Sink(Protocol):
    """Where lines are written; both ways of writing raise OSError or ValueError.

    mid_line: the last byte that was taken ends no line.
    """

    mid_line: bool

    def write_now(self, data: bytes) -> bytes:
        """Write what is taken without waiting; returns the rest."""

    def write(self, data: bytes) -> None:
        """Write all of it; may take for ever."""

    def problem(self) -> str | None:
        """Return, once, what is wrong although the lines are written."""

    def close(self) -> None:
        """Give up what was opened for the sink."""


class LogHandler(logging.Handler):
    """Writes each record at once if the sink takes it; never waits, and never raises for a sink."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink
        # Not the handler's own lock: that one is held while `flush` waits for the thread.
        self._mutex = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._thread: threading.Thread | None = None
        self._writing = False
        self._lost = 0
        self._reason = ""
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or have it written; one that finds no room is lost."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a record's arguments may raise anything
            self.handleError(record)
            return
        data = f"{line}\n".encode(errors="backslashreplace")
        with self._mutex:
            if not self._writing:
                lost = self._lost
                data = self._write_now(data)
                if not data and 0 < lost == self._lost:
                    self._lost = 0
                    data = self._write_now(self._loss(lost))
                    self._lost += lost if self._lost else 0
            if data:
                self._put(data)

    def flush(self) -> None:
        """Wait, but not for long, until all is written that was logged."""
        if (thread := self._thread) is not None:
            thread.join(FLUSH_S)

    def close(self) -> None:
        """Write no more; the sink is closed unless it still hangs in a write."""
        super().close()
        if not self._writing:
            self._sink.close()

    def _write_now(self, data: bytes) -> bytes:
        """Write what is taken now; returns what is left to be written."""
        try:
            return self._sink.write_now(self._after_torn_line(data))
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self._lose(1, error)
            return b""

    def _put(self, data: bytes) -> None:
        if self._waiting_bytes + len(data) > MAX_WAITING_BYTES:
            self._lost += 1
            self._reason = "more was logged than is read"
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self._writing:
            thread = threading.Thread(target=self._write_waiting, name="log writer", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the interpreter ends, or there is no thread left
                self._take_waiting()
                self._lose(1, error)
            else:
                self._thread, self._writing = thread, True

    def _write_waiting(self) -> None:
        """Write what waits until nothing does, and then how many were lost: the thread."""
        refused = False
        while True:
            with self._mutex:
                reported = 0
                if not self._waiting and self._lost and not refused:
                    reported = self._lost
                    self._waiting.append(self._loss(reported))
                if not self._waiting:
                    self._writing = False
                    return
                lines, data = self._take_waiting()
                data = self._after_torn_line(data)
            try:
                self._sink.write(data)
            except (OSError, ValueError) as error:
                refused = True
                with self._mutex:
                    self._lose(0 if reported else lines, error)
            else:
                with self._mutex:
                    self._lost -= reported
                refused = False
            if problem := self._sink.problem():
                with self._mutex:
                    self._waiting.append(
                        self._warning("the log file is not as it should be", {"reason": problem})
                    )

    def _take_waiting(self) -> tuple[int, bytes]:
        taken = len(self._waiting), b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return taken

    def _after_torn_line(self, data: bytes) -> bytes:
        torn, self._torn = self._torn, False
        return b"\n" + data if torn else data

    def _lose(self, count: int, error: Exception) -> None:
        self._lost += count
        self._reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._torn = self._sink.mid_line

    def _loss(self, count: int) -> bytes:
        return self._warning("log records were lost", {"count": count, "reason": self._reason})

    def _warning(self, message: str, facts: dict[str, object]) -> bytes:
        record = logging.LogRecord(
            "mesh_lifecycle", logging.WARNING, __file__, 0, message, (), None
        )
        record.__dict__ |= facts
        return f"{self.format(record)}\n".encode(errors="backslashreplace")
