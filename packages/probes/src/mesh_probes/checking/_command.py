"""A command in a process group of its own, which does not outlive its check."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import MAX_BODY_BYTES, quoted

_READ_BYTES = 64 * 1024
_HANGS_S = 1.0
"""A file that takes longer to open is on a file system that hangs; no further thread is spent."""


class _Opening(NamedTuple):
    """A thread that opens a program's file, and the loop's time since when."""

    thread: threading.Thread
    since: float


_opening: dict[str, _Opening] = {}


async def run_command(command: tuple[str, ...]) -> bytes:
    """Return what a command printed, at most 10 KiB; raises `CheckFailed` unless it ends with 0.

    When this returns or is cancelled, the command and all of its process group are killed.
    """
    await _open_once(command[0])
    ours, its = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(ours, "rb", buffering=0) as pipe:
        os.set_blocking(ours, False)
        try:
            process = _start(command, its)
        finally:
            os.close(its)
        try:
            with _output_of(pipe.fileno()) as output:
                await _wait_ended(process.pid)
        finally:
            status = _kill_and_reap(process)
    if status is None:
        raise CheckFailed("another part of this program collected the exit status")
    if status:
        raise CheckFailed(f"{_describe(status)}{_last_words(output)}")
    return bytes(output)


async def _open_once(program: str) -> None:
    """Open the program's file in a thread, and wait for that.

    Starting a program on a file system that hangs would hold Python's lock, and so all threads,
    until the file is there. The thread then hangs instead. Raises `CheckFailed` if one does.
    """
    loop = asyncio.get_running_loop()
    first = _opening.get(program)
    if first is not None and not first.thread.is_alive():
        first = None
    if first is not None and loop.time() - first.since > _HANGS_S:
        raise CheckFailed("its file system hangs")
    opened = loop.create_future()

    def tell() -> None:
        if not opened.done():
            opened.set_result(None)

    def open_file() -> None:
        for directory in ["."] if "/" in program else os.get_exec_path():
            with suppress(OSError):
                os.close(os.open(Path(directory, program), os.O_RDONLY | os.O_NONBLOCK))
                break
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(tell)

    thread = threading.Thread(target=open_file, name=f"opening {program}", daemon=True)
    if first is None:
        _opening[program] = _Opening(thread, loop.time())
    thread.start()
    await opened
    if first is None:
        _opening.pop(program, None)


def _start(command: tuple[str, ...], output: int) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CheckFailed(f"it can't be started: {reason or error}") from error


@contextmanager
def _output_of(pipe: int) -> Iterator[bytearray]:
    """Read the pipe for as long as the block runs, so that the command never waits for it."""
    loop = asyncio.get_running_loop()
    output = bytearray()

    def read() -> bool:
        try:
            data = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return False
        output.extend(data[: MAX_BODY_BYTES - len(output)])
        if not data:
            loop.remove_reader(pipe)
        return bool(data)

    loop.add_reader(pipe, read)
    try:
        yield output
    finally:
        loop.remove_reader(pipe)
        # What was printed last may be in the pipe still.
        while len(output) < MAX_BODY_BYTES and read():
            pass


async def _wait_ended(pid: int) -> None:
    """Wait until a child has ended, and leave it to be reaped."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def on_end() -> None:
        if not ended.done():
            ended.set_result(None)

    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # Another part of this program has reaped it already.
    try:
        loop.add_reader(pidfd, on_end)
        await ended
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _kill_and_reap(process: "subprocess.Popen[bytes]") -> int | None:
    """Kill the group and return the exit status; None if it is not known.

    The leader is reaped after its group was killed: until then its id is given to no other group.
    """
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        process.poll()  # It notices, and does not wait for the child later.
        return None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if found is not None:
        return process.wait()
    # A killed process ends at once, or when the kernel lets it: nothing here waits for that.
    threading.Thread(target=process.wait, name="reaping a probe's command", daemon=True).start()
    return None


def _describe(status: int) -> str:
    return f"exit status {status}" if status > 0 else f"ended by signal {-status}"


def _last_words(output: bytearray) -> str:
    lines = bytes(output).strip().splitlines()
    return f": {quoted(lines[-1])}" if lines else ""
