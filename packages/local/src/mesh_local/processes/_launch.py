"""Become another program that ends when its parent does; run as a script.

`python -IS _launch.py PARENT_PID PROGRAM [ARGUMENT...]`. Linux can be asked to kill a process at
its parent's death, but only by the process itself, so this asks and then becomes the program. A
function run between fork and exec would do as well, if fork were safe beside threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask, make sure that the parent still lives, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)
    try:
        os.execv(program, sys.argv[2:])  # noqa: S606 - becoming the program is the point
    except OSError as error:
        sys.exit(f"{program} can't be run: {error.strerror}")


if __name__ == "__main__":
    main()
