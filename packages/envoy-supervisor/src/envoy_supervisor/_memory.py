"""What the memory cgroup says: how much is allowed, and whether the kernel killed for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWatch:
    """A cgroup's directory and the number of kills it had when the watch began."""

    directory: Path
    kills_before: int

    def killed(self) -> bool:
        """Whether the kernel has killed for memory in this cgroup since the watch began."""
        return oom_kills(self.directory) > self.kills_before

    @property
    def limit(self) -> int | None:
        """How many bytes are allowed; None if there is no limit."""
        limit = _number(self.directory, "memory.max", "memory.limit_in_bytes")
        # cgroup v1 writes "no limit" as a number near 2^63.
        return limit if limit is not None and limit < 1 << 60 else None

    def figures(self) -> str:
        """The limit and the peak, in words."""
        limit = self.limit
        peak = _number(self.directory, "memory.peak", "memory.max_usage_in_bytes")
        parts = [f"limit {_mib(limit)}" if limit is not None else "no cgroup limit"]
        if peak is not None:
            parts.append(f"peak {_mib(peak)}")
        return ", ".join(parts)


def watch_memory(pid: int, *, proc: Path = Path("/proc"), root: Path = ROOT) -> MemoryWatch | None:
    """Begin watching the memory cgroup of a process; None where there is none to be seen."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            candidates = [root / path.lstrip("/"), root]
        elif "memory" in controllers.split(","):
            candidates = [root / "memory" / path.lstrip("/"), root / "memory"]
        else:
            continue
        # Inside a container the path may be the host's, while the mount shows only our part.
        for directory in candidates:
            if any((directory / name).exists() for name in ("memory.events", "memory.oom_control")):
                return MemoryWatch(directory=directory, kills_before=oom_kills(directory))
    return None


def memory_limit() -> int | None:
    """How many bytes this process and its children may use together; None if nobody limits them."""
    watch = watch_memory(os.getpid())
    return watch.limit if watch else None


def oom_kills(directory: Path) -> int:
    """The kernel's count of processes killed for memory, over the cgroup's life."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            lines = (directory / name).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return 0


def _number(directory: Path, *names: str) -> int | None:
    for name in names:
        try:
            text = (directory / name).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdigit() else None
    return None


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
