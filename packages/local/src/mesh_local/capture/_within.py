"""Becomes another program, in a network and perhaps a group; run as a script.

`python -I -S _within.py NETWORK GROUP PROGRAM [ARGUMENT ...]`, where NETWORK is the path of a
network namespace and GROUP a number, or `-` for none. A program of its own rather than a function
between fork and exec, as `mesh_lifecycle`'s `_exec_program.py` is, and for the same reasons.
"""

import ctypes
import os
import sys

_NEW_NETWORK = 0x40000000
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
_NOT_STARTED = 127


def main(network: str, group: str, program: list[str]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    parent, signal = os.getppid(), ctypes.c_int()
    libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(signal), 0, 0, 0)
    try:
        handle = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(handle, _NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if group != "-":
            # A change of ids makes the kernel forget the signal at the parent's end.
            os.setgid(int(group))
            libc.prctl(_PR_SET_PDEATHSIG, signal.value, 0, 0, 0)
            if signal.value and os.getppid() != parent:
                return _NOT_STARTED
    except OSError as error:
        sys.stderr.write(f"the network {network} can't be entered: {error.strerror}\n")
        return _NOT_STARTED
    try:
        os.execvp(program[0], program)  # noqa: S606 - no shell wanted
    except OSError as error:
        sys.stderr.write(f"{program[0]} can't be run: {error.strerror}\n")
    return _NOT_STARTED


if __name__ == "__main__":
    status = main(sys.argv[1], sys.argv[2], sys.argv[3:])
    sys.stderr.flush()
    os._exit(status)
