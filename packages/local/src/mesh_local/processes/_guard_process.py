"""Kills the process groups that a killed mesh-local leaves; run as a script.

Reads `+PID` and `-PID` lines, which tell of process groups that run and that ended. When the
input ends, which it does however the writer ends, it kills the groups that are left. Linux kills
the processes that mesh-local started itself at its death, but not what those started.
"""

import os
import signal
import sys


def main() -> None:
    """Follow the groups until the input ends, then kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue


if __name__ == "__main__":
    main()
