"""The command starts itself again, same pid, as a process that gives memory back after a peak.

How much of what 1 000 proxies needed stays when they have gone is decided by allocators and by
gRPC's event loop, which read their settings once, when the process starts. See
docs/decisions/0008-memory-after-a-peak.md.
"""

import os
import sys
from collections.abc import Mapping

SWITCH = "MESH_DISCOVERY_LEAN_MEMORY"
"""`false` leaves the process as it was started. `done` is how the second process knows that it is
one: the C library takes variables away from a process with file capabilities, so that those below
may never be seen to be there."""

ENVIRONMENT: Mapping[str, str] = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=2",
    "GRPC_EXPERIMENTS": "-event_engine_listener",
}
"""`xds_server.SERVER_ENVIRONMENT`, without loading gRPC for it."""


def lean_environment(environ: Mapping[str, str], *, glibc: bool) -> dict[str, str] | None:
    """The environment to start again with; None when there is nothing to gain.

    What the user has set stays as it is, whatever it says.
    """
    if not glibc or SWITCH in environ or ENVIRONMENT.keys() <= environ.keys():
        return None
    return {**ENVIRONMENT, **environ, SWITCH: "done"}


def become_lean() -> None:
    """Replace this process by the same command in a lean environment, or return."""
    development = sys.flags.dev_mode  # which asks for Python's checking allocator
    environ = lean_environment(os.environ, glibc=_on_glibc() and not development)
    if environ is not None and sys.executable:
        arguments = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, arguments, environ)  # noqa: S606 - no shell wanted


def _on_glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (AttributeError, OSError, ValueError):
        return False
