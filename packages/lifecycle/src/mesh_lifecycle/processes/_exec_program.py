"""Becomes another program, which the kernel tells to end when the parent of this process ends.

Run as `python -I -S _exec_program.py PARENT_PID SIGNAL ERROR_FD PROGRAM [ARGUMENT ...]`. It is a
program of its own and no function between fork and exec, which would run Python in a copy of a
process whose other threads (gRPC's) may hold any lock: such children were seen to crash. Without
such a function `subprocess` uses vfork, which copies nothing.

If PROGRAM can't be executed, the error number goes to ERROR_FD as text; else it is closed. If
ERROR_FD is `-`, a sentence goes to standard error.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, number: int, error_fd: int | None, program: list[str]) -> int:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above: no signal would come
        return 127
    if error_fd is not None:
        os.set_inheritable(error_fd, False)
    # Python ignores these for itself, and what is ignored stays so in the program.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - no shell wanted
    except OSError as error:
        if error_fd is None:
            sys.stderr.write(f"{program[0]} can't be run: {error.strerror}\n")
            sys.stderr.flush()
        else:
            os.write(error_fd, str(error.errno).encode())
    return 127


if __name__ == "__main__":
    fd = None if sys.argv[3] == "-" else int(sys.argv[3])
    os._exit(main(int(sys.argv[1]), int(sys.argv[2]), fd, sys.argv[4:]))
