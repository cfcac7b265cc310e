"""Programs that read and write rules, run so that they end what they began."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mesh_traffic_capture._errors import CaptureFailed

_ALSO_SEARCHED: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_TIMEOUT_S: Final = 60.0
_MOST_OUTPUT: Final = 64 << 20
_NET_ADMIN: Final = 12
"""The number of the capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, and what it reads."""

    arguments: tuple[str, ...]
    stdin: str = ""

    def __str__(self) -> str:
        """Return the command as a shell would take it."""
        line = " ".join(self.arguments)
        return f"{line} <<'END'\n{self.stdin}END" if self.stdin else line


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A program that has ended."""

    status: int
    output: str
    errors: str


def find_program(name: str) -> str | None:
    """Return a program's path; those of administrators are found without their PATH as well."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_ALSO_SEARCHED}")


def has_net_admin() -> bool:
    """Return whether this thread may change the network's configuration."""
    try:
        status = Path("/proc/thread-self/status").read_text()
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
        what = " and ".join(Path(command.arguments[0]).name for command in commands)
        said = " ".join(done.errors.split())[:500] or f"ended with status {done.status}"
        raise CaptureFailed(f"{what}: {said}")


def _run(arguments: Sequence[str], inputs: Sequence[str], *, keep_open: Sequence[int] = ()) -> Done:
    files = [_file_with(text) for text in inputs]
    words = list(arguments)
    if len(files) > 1:
        words[-1] = words[-1].format(*files)
    try:
        done = subprocess.run(
            words,
            stdin=files[0],
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            start_new_session=True,
            pass_fds=(*files, *keep_open),
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise CaptureFailed(f"{words[0]} did not end within {_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise CaptureFailed(f"{words[0]} can't be run: {error.strerror}") from error
    finally:
        for file in files:
            os.close(file)
    return Done(
        status=done.returncode,
        output=done.stdout[:_MOST_OUTPUT].decode("utf-8", "replace"),
        errors=done.stderr[:_MOST_OUTPUT].decode("utf-8", "replace"),
    )


def _file_with(text: str) -> int:
    """Return a file in memory: a pipe would end in the middle with its writer."""
    file = os.memfd_create("rules")
    data = text.encode()
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
