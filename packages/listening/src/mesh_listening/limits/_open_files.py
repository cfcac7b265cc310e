"""The open files of this process: how many connections may take, and whether there are none left.

Limits of each port are not enough: several ports that are full take more files together than there
are. And a process without a free one can't read a file, call anybody or accept a connection, while
all that it has open goes on, so no user notices; it has to be reported.
"""

import errno
import logging
import os
import resource
import time
from collections.abc import Callable

log = logging.getLogger("mesh_listening")

OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_PART_OF_CONNECTIONS = 3 / 4
_QUIET_S = 2.0
"""The process is out of files until it was not for so long: a file that is free for a moment, as
when a connection ends, is no end of it."""
_PART_OF_FEW_FILES = 7 / 8
"""Ports whose connections are one file each, those of probes and scrapers, find room when the ports
of gRPC are full."""


class OpenFiles:
    """The files of connections, and the times in which no more could be opened."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._of_connections = 0
        self._out_since: float | None = None
        self._last_out = 0.0

    def hold(self, files: int) -> bool:
        """Count the files of a connection until they are released; False if there is no room."""
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        part = _PART_OF_FEW_FILES if files == 1 else _PART_OF_CONNECTIONS
        if allowed != resource.RLIM_INFINITY and self._of_connections + files > allowed * part:
            return False
        self._of_connections += files
        return True

    def release(self, files: int) -> None:
        """The files of a connection are closed."""
        self._of_connections -= files

    def note(self, error: OSError) -> None:
        """Something could not be opened; it is logged if the process is out of files since now."""
        if error.errno not in OUT_OF_FILES:
            return
        self._last_out = self._now()
        if self._out_since is None:
            self._out_since = self._last_out
            log.error("out of file descriptors", extra={"reason": error.strerror, **_facts()})

    def is_over(self) -> bool:
        """Look whether files could be opened for a while, and log the end of a time without."""
        if self._can_open() and self._out_since is not None:
            if self._now() - self._last_out < _QUIET_S:
                return False
            lasted_s = round(self._last_out - self._out_since, 1)
            self._out_since = None
            log.warning("file descriptors are free again", extra={"lasted_s": lasted_s, **_facts()})
        return self._out_since is None

    def _can_open(self) -> bool:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            self.note(error)
            return False
        return True

    def trouble(self) -> str | None:
        """Return a sentence if no file can be opened now; None if one can."""
        if self._can_open() or self._out_since is None:
            self.is_over()
            return None
        facts = _facts()
        return (
            f"out of file descriptors for {self._now() - self._out_since:.0f} s, "
            f"{facts['allowed']} may be open: no caller is served anew and no file read; raise the "
            "limit (ulimit -n, LimitNOFILE) or see who has so many connections"
        )


def _facts() -> dict[str, object]:
    return {"allowed": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}


OPEN_FILES = OpenFiles()
"""Of this process, which has one table of files for all its ports."""


def out_of_files() -> str | None:
    """Return a sentence if this process can open no file now, for its readiness and status."""
    return OPEN_FILES.trouble()
