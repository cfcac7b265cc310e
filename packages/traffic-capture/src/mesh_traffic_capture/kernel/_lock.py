"""One process at a time changes the rules of a network namespace.

The lock is on the namespace itself, as the kernel shows it in /proc: it needs no file that could be
read-only or another container's, and goes with its holder.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager

from mesh_traffic_capture._errors import LockTimedOut
from mesh_traffic_capture.kernel._files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

_NAMESPACE: Final = "/proc/thread-self/ns/net"
_INTERVAL_S: Final = 0.05


@contextmanager
def only_one(*, timeout_s: float) -> Iterator[int]:
    """Hold the lock, and yield its file; raises `LockTimedOut`."""
    lock = os.open(_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + timeout_s
        while not _taken(lock):
            if time.monotonic() >= end:
                raise LockTimedOut(
                    f"{_holder(lock)} has been changing the rules of this network namespace for "
                    f"{timeout_s:g} s: wait for it, or end it"
                )
            time.sleep(_INTERVAL_S)
        yield lock
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: int) -> str:
    inode = f":{os.fstat(lock).st_ino}"
    try:
        lines = read_text("/proc/locks").splitlines()
    except OSError:
        lines = []
    for line in lines:
        # 1: FLOCK  ADVISORY  WRITE 29492 00:04:4026531833 0 EOF
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(inode):
            return f"process {words[4]}"
    return "another process"
