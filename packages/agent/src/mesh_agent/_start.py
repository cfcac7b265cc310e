"""Becomes the agent's process, from a command line that needs no library to be read.

`mesh-agent proxy` is what pods run. The library that reads command lines takes longer to load than
all that is done here, so it reads only those that this module leaves to it: mistakes, and `--help`.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from msgspec.structs import asdict, replace

from mesh_agent.config._flags import Flags
from mesh_agent.config._options import read_words

# These must be set before the process starts; a user's own values win.
_ENVIRONMENT = {
    # glibc gives each of gRPC's threads an arena of its own to grow; two are enough for this load.
    "MALLOC_ARENA_MAX": "2",
    # gRPC's core reports on stderr every peer that leaves and every handshake that fails; the agent
    # logs what matters of it.
    "GRPC_VERBOSITY": "NONE",
}


def proxy(words: Sequence[str]) -> None:
    """Become the agent's process; returns only if these words are not simply right.

    words: those behind the command's name.
    """
    flags = flags_of(words)
    if flags is not None:
        replace_this_process(flags)


def flags_of(words: Sequence[str]) -> Flags | None:
    """Return the flags in these words; None if they have a mistake or ask for help."""
    flags = read_words(words)
    if flags is None:
        return None
    return replace(flags, version=agent_version(), added_variables=environment_added())


def agent_version() -> str:
    try:
        return version("mesh-agent")
    except PackageNotFoundError:
        return "unknown"


def environment_added() -> tuple[str, ...]:
    """Return the names of the variables that `replace_this_process` adds to the environment."""
    return tuple(name for name in _ENVIRONMENT if name not in os.environ)


def replace_this_process(flags: Flags) -> NoReturn:
    """Become the agent's process; keeps pid, directory, environment and open files."""
    arguments = [sys.executable, "-m", "mesh_agent._process", json.dumps(asdict(flags))]
    os.execve(sys.executable, arguments, {**_ENVIRONMENT, **os.environ})  # noqa: S606 - no shell wanted
