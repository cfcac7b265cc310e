"""The resources of this process that a test can forget to release.

A snapshot is taken before a test and compared with one taken after it; the difference is a list of
sentences, one for each thing left. Descriptors and child processes are read from /proc, so on a
system without it only threads are compared.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
# Standard input, output and error are pytest's, whose capturing points them here and there; and
# the file they lead to may be renamed or removed by others meanwhile, which changes its name.
_FIRST_OF_A_TEST = 3
_ADDRESSED = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The threads, open descriptors and child processes of one moment."""

    threads: frozenset[threading.Thread]
    descriptors: frozenset[tuple[int, str]]
    children: frozenset[int]

    @classmethod
    def now(cls) -> Self:
        """Return the resources that this process has now."""
        return cls(
            threads=frozenset(thread for thread in threading.enumerate() if not thread.daemon),
            descriptors=frozenset(_open_descriptors()),
            children=frozenset(_child_processes()),
        )

    def left_since(self, before: Self) -> list[str]:
        """Describe each resource that was not there before."""
        return [
            *(f"thread {t.name!r} is still running" for t in self.threads - before.threads),
            *(
                _describe_descriptor(number, target)
                for number, target in sorted(self.descriptors - before.descriptors)
                if not _is_grpcs_own(number, target)
            ),
            *(_describe_child(pid) for pid in sorted(self.children - before.children)),
        ]


def socket_files(directory: Path) -> Iterator[Path]:
    """Yield the Unix sockets below a directory, which a server removes when it stops."""
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent, name)
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(mode):
                yield path


def _open_descriptors() -> Iterator[tuple[int, str]]:
    directory = _PROC / "self" / "fd"
    try:
        names = os.listdir(directory)  # noqa: PTH208 - iterdir keeps its own descriptor open
    except FileNotFoundError:
        return
    for name in names:
        if int(name) < _FIRST_OF_A_TEST:
            continue
        try:
            yield int(name), os.readlink(directory / name)  # noqa: PTH115 - sockets are not paths
        except FileNotFoundError:
            continue  # the descriptor of the listing itself


def _child_processes() -> Iterator[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return  # there are none, which is told without a look at every process of the machine
    own = os.getpid()
    try:
        names = os.listdir(_PROC)  # noqa: PTH208
    except FileNotFoundError:
        return
    for name in names:
        if name.isdigit() and _parent_of(int(name)) == own:
            yield int(name)


def _parent_of(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # "pid (name) state parent ...": the name may hold spaces and parentheses
    return int(text.rpartition(")")[2].split()[1])


def _describe_child(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        words = []
    command = b" ".join(words).decode(errors="replace").strip()
    if not command:
        return f"child process {pid} ended and was not waited for"
    return f"child process {pid} is still running: {command}"


def _is_grpcs_own(number: int, target: str) -> bool:
    """Return whether a descriptor is grpc's poller's, open while any object of grpc.aio lives.

    A log record or an exception that a test looks at may keep one alive, and the poller is the
    process's own, not the test's. An event loop that was not closed looks the same, but warns
    when it is collected, which fails the test too.
    """
    if "grpc.aio" not in sys.modules:
        return False
    if target in ("anon_inode:[eventpoll]", "anon_inode:[eventfd]"):
        return True
    if not target.startswith("socket:"):
        return False
    try:
        with socket.socket(fileno=os.dup(number)) as end:
            nameless = not end.getsockname() and not end.getpeername()
            return end.family == socket.AF_UNIX and nameless
    except OSError:
        return False


def _describe_descriptor(number: int, target: str) -> str:
    what = target
    if target.startswith("socket:"):
        try:
            with socket.socket(fileno=os.dup(number)) as duplicate:
                if duplicate.family in _ADDRESSED:
                    what = f"socket at {duplicate.getsockname() or 'no address'}"
        except OSError:
            what = "socket"
    return f"file descriptor {number} is still open: {what}"
