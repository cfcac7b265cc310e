"""The processes of one name, as a pod with a shared process namespace or a machine shows them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from mesh_lifecycle._clock import Clock, SystemClock
from mesh_lifecycle.processes._handle import ProcessHandle

_PROC = Path("/proc")
_LONGEST_COMM = 15  # the kernel cuts the name of a process to this
_MAX_COMMAND_BYTES = 4096
_FIRST_LOOK_S, _SLOWEST_LOOK_S = 0.1, 1.0
_SUCCESSOR_S = 0.5
"""How long the last process of a name may have been gone before the next one is started."""


def named_processes(name: str, *, proc: Path = _PROC) -> tuple[int, ...]:
    """Return the ids of the processes of that name, except this one and its children.

    The name is that of the program: the kernel's name of the process (a script's is the script's),
    or the last part of its first argument.
    """
    own = os.getpid()
    return tuple(
        pid
        for pid in _process_ids(proc)
        if pid != own
        and _has_name(proc / str(pid), name)
        and _living_parent(proc / str(pid)) not in (own, None)
    )


async def wait_named_end(
    name: str,
    *,
    found: Callable[[Sequence[int]], None] | None = None,
    clock: Clock | None = None,
) -> None:
    """Wait for a process of that name, and then until none is left.

    found: called with the ids of those that were found, each time it is others. A process that
    starts within half a second of the last one's end counts as one of them.
    """
    clock = clock or SystemClock()
    pause_s, there_was_one = _FIRST_LOOK_S, False
    while True:
        with ExitStack() as stack:
            handles = tuple(_living(name, stack))
            if handles:
                there_was_one = True
                if found is not None:
                    found(tuple(handle.pid for handle in handles))
                for handle in handles:
                    await handle.wait_end()
                continue
        if there_was_one:
            await clock.sleep(_SUCCESSOR_S)
            with ExitStack() as stack:
                if not tuple(_living(name, stack)):
                    return
            continue
        await clock.sleep(pause_s)
        pause_s = min(_SLOWEST_LOOK_S, pause_s * 1.5)


def _living(name: str, stack: ExitStack) -> Iterator[ProcessHandle]:
    for pid in named_processes(name):
        try:
            handle = ProcessHandle(pid)
        except ProcessLookupError:
            continue
        stack.callback(handle.close)
        # The id may have been given to another process since it was found.
        if _has_name(_PROC / str(pid), name) and not handle.ended:
            yield handle


def _process_ids(proc: Path) -> Iterator[int]:
    for entry in os.listdir(proc):  # noqa: PTH208 - names only, of a directory that changes
        if entry.isdecimal():
            yield int(entry)


def _has_name(process: Path, name: str) -> bool:
    with suppress(OSError):
        if _read(process / "comm").rstrip(b"\n") == os.fsencode(name)[:_LONGEST_COMM]:
            return True
        first, _, _ = _read(process / "cmdline").partition(b"\0")
        return bool(first) and os.path.basename(first) == os.fsencode(name)  # noqa: PTH119 - bytes
    return False


def _living_parent(process: Path) -> int | None:
    """Return the parent's id; None for a process that has ended, be it that nothing reaped it."""
    with suppress(OSError, ValueError, IndexError):
        # The name in parentheses may hold anything; behind it are the state and the parent.
        state, parent = _read(process / "stat").rpartition(b")")[2].split()[:2]
        return None if state in (b"Z", b"X") else int(parent)
    return None


def _read(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read(_MAX_COMMAND_BYTES) or b""
