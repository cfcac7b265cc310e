"""Kills the process groups that a killed mesh-local leaves; run as a script.

Reads `+PID` and `-PID` lines, which tell of process groups that run and that ended. When the
input ends, which it does however the writer ends, it kills the groups that are left. Linux kills
the processes that mesh-local started itself at its death, but not what those started.

A line `@` says that this process is in a namespace of mounts that is the mesh's alone: then all
that is in it is killed, whatever its group, and also when the mesh has been stopped in order. A
mesh's networks last as long as its processes, and a daemon is in none of the groups that are known.

A line `=FOLDER` names a state folder: what its Envoys have in /dev/shm is removed, too, if anything
was left to kill. This program itself loads nothing, so another one does that.
"""

import os
import signal
import sys

_PASSES = 1000
"""More than a program that starts others needs to be outrun; then it has won."""


def main() -> None:
    """Follow the groups until the input ends, then kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    folders: list[str] = []
    has_namespace = False
    for line in sys.stdin:
        if line[0] == "@":
            has_namespace = True
        elif line[0] == "=":
            folders.append(line[1:].rstrip("\n"))
        else:
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue
    if has_namespace:
        kill_namespace()
    if groups and folders:
        command = [sys.executable, "-m", "mesh_local.state._leftovers", *folders]
        os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted


def kill_namespace() -> None:
    """Kill all others in this process's namespace of mounts, but for the mesh's own process."""
    own, spared = namespace_of("self"), {str(os.getpid()), str(os.getppid())}
    for _ in range(_PASSES):
        processes = set(filter(str.isdigit, os.listdir("/proc"))) - spared  # noqa: PTH208 - loads more
        found = [each for each in processes if namespace_of(each) == own]
        for each in found:
            try:
                os.kill(int(each), signal.SIGKILL)
            except OSError:
                continue
        if not found:  # what they may have started meanwhile has been looked for as well
            return


def namespace_of(process: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")  # noqa: PTH115 - loads more
    except OSError:  # it has ended, or is another user's
        return ""


if __name__ == "__main__":
    main()
