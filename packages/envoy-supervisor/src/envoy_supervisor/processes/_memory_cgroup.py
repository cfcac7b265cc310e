"""Reads the memory cgroup: how much memory is allowed, and whether the kernel killed for it.

Reads both layouts: the unified one (v2), in which any cgroup further up may have the limit and
`memory.*` files are missing where the controller is not enabled; and the older one (v1), in which
the kernel itself includes the limits further up. Source: the kernel's admin-guide/cgroup-v2 and
cgroup-v1/memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec

ROOT = Path("/sys/fs/cgroup")

_LIMITS = ("memory.max", "memory.limit_in_bytes")
_PEAKS = ("memory.peak", "memory.max_usage_in_bytes")
_EVENTS = ("memory.events", "memory.oom_control")


class MemoryWatch(msgspec.Struct, frozen=True, kw_only=True):
    """A process' memory cgroups, and the count of kills when the watch began.

    directories: the cgroup the process is in, then those above it, as far as they can be seen.
    """

    directories: tuple[Path, ...]
    kills_before: int

    def killed(self) -> bool:
        """Return whether the kernel has killed for memory in this cgroup since the watch began."""
        return oom_kills(self.directories[0]) > self.kills_before

    @property
    def limit(self) -> int | None:
        """How many bytes the cgroup with the tightest limit allows; None if none has a limit."""
        tightest = self._tightest()
        return tightest[0] if tightest else None

    def figures(self) -> str:
        """Return the limit and the peak of use, as text."""
        tightest = self._tightest()
        peak = _number(tightest[1] if tightest else self.directories[0], _PEAKS)
        parts = [f"limit {_mib(tightest[0])}" if tightest else "no cgroup limit"]
        if peak is not None:
            parts.append(f"peak {_mib(peak)}")
        return ", ".join(parts)

    def _tightest(self) -> tuple[int, Path] | None:
        limits = ((_number(directory, _LIMITS), directory) for directory in self.directories)
        # The older layout writes "no limit" as a number near 2^63.
        given = [(limit, where) for limit, where in limits if limit is not None and limit < 1 << 60]
        return min(given, key=lambda pair: pair[0], default=None)


def watch_memory(pid: int, *, proc: Path = Path("/proc"), root: Path = ROOT) -> MemoryWatch | None:
    """Begin to watch the memory cgroup of a process; None if none can be seen."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount = root
        elif "memory" in controllers.split(","):
            mount = root / "memory"
        else:
            continue
        if directories := tuple(_with_memory(_upwards(mount, path))):
            return MemoryWatch(directories=directories, kills_before=oom_kills(directories[0]))
    return None


def memory_limit() -> int | None:
    """Return how many bytes this process and its children may use together; None: no limit."""
    watch = watch_memory(os.getpid())
    return watch.limit if watch else None


def oom_kills(directory: Path) -> int:
    """Return the kernel's count of processes killed for memory, over the cgroup's life."""
    for name in _EVENTS:
        try:
            lines = (directory / name).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def _upwards(mount: Path, path: str) -> Iterable[Path]:
    """Yield the cgroup's directory and those above it.

    Inside a container the path may be the host's, while the mount shows only the container's part:
    then nothing below the mount is there, and the mount itself is the cgroup. A path that leaves
    the mount (`/../other`: a process of another namespace) cannot be seen.
    """
    parts = PurePosixPath(path.lstrip("/")).parts
    if ".." in parts:
        return
    for depth in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:depth])


def _with_memory(directories: Iterable[Path]) -> Iterable[Path]:
    """Yield the cgroups that account for memory.

    The real root does not, nor does a cgroup that the memory controller is not enabled for.
    """
    return (
        directory
        for directory in directories
        if any((directory / name).exists() for name in _EVENTS)
    )


def _number(directory: Path, names: tuple[str, ...]) -> int | None:
    for name in names:
        try:
            text = (directory / name).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdigit() else None
    return None


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
