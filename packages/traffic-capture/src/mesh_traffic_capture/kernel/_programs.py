"""Programs that read and write rules, run so that they end what they began."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from select import POLLIN, poll

from mesh_traffic_capture._errors import CaptureFailed
from mesh_traffic_capture._value import value
from mesh_traffic_capture.kernel._files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

_ALSO_SEARCHED: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_TIMEOUT_S: Final = 60.0
_MOST_OUTPUT: Final = 64 << 20
_ABOVE_STANDARD: Final = 10
"""Files that programs are given have numbers from here: 0, 1 and 2 may be free."""
_BROKEN_PIPE: Final = 13
"""The signal that Python ignores, and a program should not; `signal` takes time to load."""
_INTERVAL_S: Final = 0.005
_OF_MODULES: Final = (
    "Could not process rule: No such file or directory",
    "not supported",
    "missing kernel module",
    "No chain/target/match by that name",
)
_NET_ADMIN: Final = 12
"""The number of the capability."""


@value
class Command:
    """A program with its arguments, and what it reads."""

    arguments: tuple[str, ...]
    stdin: str = ""

    def __str__(self) -> str:
        """Return the command as a shell would take it."""
        line = " ".join(self.arguments)
        return f"{line} <<'END'\n{self.stdin}END" if self.stdin else line


@value
class Done:
    """A program that has ended."""

    status: int
    output: str
    errors: str


def find_program(name: str) -> str | None:
    """Return a program's path; those of administrators are found without their PATH as well."""
    for folder in f"{os.environ.get('PATH', os.defpath)}:{_ALSO_SEARCHED}".split(":"):
        path = f"{folder}/{name}"
        if folder and os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            return path
    return None


def has_net_admin() -> bool:
    """Return whether this thread may change the network's configuration."""
    try:
        status = read_text("/proc/thread-self/status")
    except OSError:
        return os.geteuid() == 0
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> _NET_ADMIN & 1)
    return os.geteuid() == 0


def without_net_admin() -> CaptureFailed:
    """Return the error of a process that may not."""
    return CaptureFailed(
        "reading and writing rules takes CAP_NET_ADMIN: run this as root, or in a container with "
        "the capabilities NET_ADMIN and NET_RAW"
    )


def run_program(command: Command) -> Done:
    """Run a program to its end; raises `CaptureFailed` if it can't be run or hangs."""
    return _run(command.arguments, [command.stdin])


def run_all(commands: Sequence[Command], *, keep_open: Sequence[int] = ()) -> None:
    """Run programs one after the other; raises `CaptureFailed` with what the first to fail said.

    They are the children of one that does not end with this process, and have all that they read:
    a kill of this process does not leave half of the commands undone. They keep files open, such
    as a lock.
    """
    if len(commands) == 1:
        done = _run(commands[0].arguments, [commands[0].stdin], keep_open=keep_open)
    else:
        # No argument of ours has a space. dash takes no `<&` of two digits.
        script = " && ".join(
            f"{' '.join(command.arguments)} </proc/self/fd/{{{number}}}"
            for number, command in enumerate(commands)
        )
        done = _run(
            ("/bin/sh", "-c", script), [command.stdin for command in commands], keep_open=keep_open
        )
    if done.status != 0:
        what = " and ".join(command.arguments[0].rpartition("/")[2] for command in commands)
        said = " ".join(done.errors.split())[:500] or f"ended with status {done.status}"
        raise CaptureFailed(f"{what}: {said}{_hint(said)}")


def _hint(said: str) -> str:
    """Return what to do about an error, by the words of the kernel's; nothing else tells them."""
    if not any(words in said for words in _OF_MODULES):
        return ""
    return (
        ": the kernel may lack a module that the rules need: modprobe -a nft_chain_nat nft_redir "
        "nft_ct nft_tproxy for nft; xt_REDIRECT xt_owner xt_multiport xt_comment xt_CT xt_TPROXY "
        "for iptables"
    )


def _run(arguments: Sequence[str], inputs: Sequence[str], *, keep_open: Sequence[int] = ()) -> Done:
    """Run a program in a session of its own; all that it reads and prints is in memory files.

    `subprocess` would do, and takes as long to load as nft to apply the rules.
    """
    files = [_file_with(text) for text in inputs]
    said = [_file_with(""), _file_with("")]
    kept = [fcntl(each, F_DUPFD_CLOEXEC, _ABOVE_STANDARD) for each in keep_open]
    words = list(arguments)
    if len(files) > 1:
        words[-1] = words[-1].format(*files)
    try:
        process = os.posix_spawn(
            words[0],
            words,
            {**os.environ, "LC_ALL": "C"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, files[0], 0),
                (os.POSIX_SPAWN_DUP2, said[0], 1),
                (os.POSIX_SPAWN_DUP2, said[1], 2),
                # Onto itself: it is not closed when the program begins.
                *((os.POSIX_SPAWN_DUP2, each, each) for each in (*files, *kept)),
            ],
            setsid=True,
            setsigdef=(_BROKEN_PIPE,),
        )
        status = _status(process, words[0])
        output, errors = (_content(each) for each in said)
    except OSError as error:
        raise CaptureFailed(f"{words[0]} can't be run: {error.strerror}") from error
    finally:
        for file in (*files, *said, *kept):
            os.close(file)
    return Done(status=status, output=output, errors=errors)


def _status(process: int, program: str) -> int:
    """Return the exit status of a process when it has ended; raises `CaptureFailed` if it hangs."""
    end = time.monotonic() + _TIMEOUT_S
    if not _ends(process, end):
        with suppress(ProcessLookupError):
            os.kill(process, 9)
        os.waitpid(process, 0)
        raise CaptureFailed(f"{program} did not end within {_TIMEOUT_S:g} s")
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def _ends(process: int, end: float) -> bool:
    try:
        file = os.pidfd_open(process)
    except OSError:  # a kernel without it
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, process, flags) is None:
            if time.monotonic() >= end:
                return False
            time.sleep(_INTERVAL_S)
        return True
    try:
        waiting = poll()
        waiting.register(file, POLLIN)
        return bool(waiting.poll(max(0.0, end - time.monotonic()) * 1000))
    finally:
        os.close(file)


def _file_with(text: str) -> int:
    """Return a file in memory: a pipe would end in the middle with its writer."""
    unplaced = os.memfd_create("rules")
    try:
        file = fcntl(unplaced, F_DUPFD_CLOEXEC, _ABOVE_STANDARD)
    finally:
        os.close(unplaced)
    data = text.encode()
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _content(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as opened:
        return opened.read(_MOST_OUTPUT).decode("utf-8", "replace")
