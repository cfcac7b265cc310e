"""Becomes another program, which the kernel tells to end when the parent of this process ends.

Run as `python -I -S _exec_program.py PARENT_PID SIGNAL DEFAULTS ERROR_FD PROGRAM [ARGUMENT ...]`,
where DEFAULTS are the numbers of signals that get their usual effect again, by commas. It is a
program of its own and no function between fork and exec, which would run Python in a copy of a
process whose other threads (gRPC's) may hold any lock: such children were seen to crash. Without
such a function `subprocess` uses vfork, which copies nothing. The parent waits for it, so it loads
little: `signal` takes as long to load as all the rest.

If PROGRAM can't be executed, the error number goes to ERROR_FD as text; else it is closed. If
ERROR_FD is `-`, a sentence goes to standard error.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_SIG_DFL = None


def main(
    parent: int, number: int, defaults: list[int], error_fd: int | None, program: list[str]
) -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above: no signal would come
        return 127
    if error_fd is not None:
        os.set_inheritable(error_fd, False)
    # Python ignores these for itself, and what is ignored stays so in the program.
    for ignored in defaults:
        libc.signal(ignored, _SIG_DFL)
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
    fd = None if sys.argv[4] == "-" else int(sys.argv[4])
    numbers = [int(each) for each in sys.argv[3].split(",")]
    os._exit(main(int(sys.argv[1]), int(sys.argv[2]), numbers, fd, sys.argv[5:]))
