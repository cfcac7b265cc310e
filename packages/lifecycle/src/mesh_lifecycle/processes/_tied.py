"""Starts programs that end with this process: the kernel signals them when it ends.

The program that is started first, `_exec_program.py`, asks the kernel for that and becomes the one
that is wanted. https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals

# -I -S because the program needs nothing that takes time to load.
_EXEC = (sys.executable, "-I", "-S", str(Path(__file__).with_name("_exec_program.py")))

_IGNORED = ",".join(str(int(each)) for each in (Signals.SIGPIPE, Signals.SIGXFSZ))
"""Python ignores these for itself."""


class NotExecuted(OSError):
    """The program can't be executed; `errno` tells why."""


def tied_command(
    command: Sequence[str], *, end_signal: Signals, error_fd: int | None = None
) -> tuple[str, ...]:
    """Return the command that becomes `command`, and gets the signal when this thread ends.

    It must be started by this process, from a thread that lives for as long as the program should.

    error_fd: an inherited descriptor that gets the error number as text if the program can't be
        executed, and is closed if it is; None to have that written in words on standard error.
    """
    errors = "-" if error_fd is None else str(error_fd)
    return (*_EXEC, str(os.getpid()), str(int(end_signal)), _IGNORED, errors, *command)


def start_tied(
    command: Sequence[str],
    *,
    end_signal: Signals,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a command in a process group of its own; returns once it is being executed.

    Raises `NotExecuted`, and OSError if the system refuses a new process.
    """
    errors, error_writer = os.pipe()
    try:
        popen = subprocess.Popen(
            tied_command(command, end_signal=end_signal, error_fd=error_writer),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            process_group=0,
            pass_fds=[error_writer],
        )
    except OSError:
        os.close(errors)
        raise
    finally:
        os.close(error_writer)
    with os.fdopen(errors, "rb") as pipe:
        refused = pipe.read(16)  # ends when the program is being executed
    if refused:
        popen.communicate()
        raise NotExecuted(int(refused), os.strerror(int(refused)), command[0])
    return popen
