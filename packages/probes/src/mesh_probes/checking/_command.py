"""A command in a process group of its own, which does not outlive its check."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import MAX_BODY_BYTES, quoted

_READ_BYTES = 64 * 1024


async def run_command(command: tuple[str, ...]) -> bytes:
    """Return what a command printed, at most 10 KiB; raises `CheckFailed` unless it ends with 0.

    When this returns or is cancelled, the command and all of its process group are killed.
    """
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
