"""The environment variables with which a server's process gives memory back after a peak."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SERVER_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "PYTHONMALLOC": "malloc",
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=2",
        "GRPC_EXPERIMENTS": "-event_engine_listener",
    }
)
"""Environment variables of a process that keeps little of a peak of clients, with glibc.

- `PYTHONMALLOC=malloc`: memory goes back by the page; Python's own allocator gives back whole
  megabytes.
- `GLIBC_TUNABLES`: no caches in threads, and two arenas rather than one for each of gRPC's
  threads. In both, a small object would stay and keep a page.
- `GRPC_EXPERIMENTS=-event_engine_listener`: gRPC accepts connections on its older event loop, which
  keeps less of each. A gRPC that does not know the name says so on stderr, and does without.

They have to be set when the process starts: `os.execve` with
`{**SERVER_ENVIRONMENT, **os.environ}` leaves the variables that the user has set as they are. Not
for other C libraries: musl's `malloc` is slow under Python. Figures are in the README, "Memory
after a peak".
"""
