"""A look at this machine's processes and shared memory."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_LAST_LINES = 15


def last_words(logs: Iterable[Path]) -> str:
    """Return the end of each log, for the message of a failure."""
    endings = []
    for log in logs:
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        endings.append("\n  ".join((f"the end of {log.name}:", *lines[-_LAST_LINES:])))
    return "\n".join(endings)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not.

    Its first thread may have ended before the others, which still hold its files.
    """
    with suppress(OSError):
        return _stat(pid)[0] != "Z" or len(_threads(pid)) > 1
    return False


def _threads(pid: int) -> tuple[Path, ...]:
    return tuple(Path(f"/proc/{pid}/task").iterdir())


def children_of(pid: int) -> tuple[int, ...]:
    """Return a process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if int(_stat(int(entry.name))[1]) == pid:
                    found.append(int(entry.name))
    return tuple(found)


def command_line(pid: int) -> str:
    """Return a process's command; empty when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


def shared_memory_of(pid: int) -> frozenset[Path]:
    """Return the files in shared memory that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return frozenset(
        Path("/dev/shm" + line.partition("/dev/shm")[2]) for line in lines if "/dev/shm/" in line
    )


def _stat(pid: int) -> list[str]:
    # "pid (name) state parent ...": the name may hold spaces and parentheses
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
