"""Kills the process groups that a killed mesh-local leaves; run as a script.

Reads `+PID` and `-PID` lines, which tell of process groups that run and that ended. When the
input ends, which it does however the writer ends, it kills the groups that are left. Linux kills
the processes that mesh-local started itself at its death, but not what those started.

A line `=FOLDER` names a state folder: what its Envoys have in /dev/shm is removed, too, if anything
was left to kill. This program itself loads nothing, so another one does that.
"""

import os
import signal
import sys


def main() -> None:
    """Follow the groups until the input ends, then kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    folders: list[str] = []
    for line in sys.stdin:
        if line[0] == "=":
            folders.append(line[1:].rstrip("\n"))
        else:
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue
    if groups and folders:
        command = [sys.executable, "-m", "mesh_local.state._leftovers", *folders]
        os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
