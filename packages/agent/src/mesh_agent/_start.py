"""Becomes the agent, from a command line that needs no library to be read.

`mesh-agent proxy` is what pods run. The library that reads command lines takes longer to load than
all that is done here, so it reads only those that this module leaves to it: mistakes, and `--help`.
"""

import gc
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from msgspec.structs import asdict, replace

from mesh_agent.config._flags import Flags
from mesh_agent.config._options import read_words
from mesh_agent_cli import installed_version

# A user's own values win.
_ENVIRONMENT = {
    # gRPC's core reports on stderr every peer that leaves and every handshake that fails; the agent
    # logs what matters of it. It reads this when it is loaded.
    "GRPC_VERBOSITY": "NONE",
}


def proxy(words: Sequence[str]) -> None:
    """Run the agent in this process; returns only if these words are not simply right.

    words: those behind the command's name.
    """
    flags = flags_of(words)
    if flags is not None:
        gc.disable()  # until all is loaded: what is loaded stays
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mesh_agent._process import main

        sys.exit(main(flags))


def flags_of(words: Sequence[str]) -> Flags | None:
    """Return the flags in these words; None if they have a mistake or ask for help."""
    flags = read_words(words)
    if flags is None:
        return None
    return replace(flags, version=agent_version(), added_variables=environment_added())


def agent_version() -> str:
    """Return the version of this package, as it is installed."""
    return installed_version("mesh-agent")


def environment_added() -> tuple[str, ...]:
    """Return the names of the variables that the start of the agent adds to the environment."""
    return tuple(name for name in _ENVIRONMENT if name not in os.environ)


def replace_this_process(flags: Flags) -> NoReturn:
    """Become the agent in a new program; keeps pid, directory, environment and open files.

    For a process that has loaded what would stay in memory beside every workload.
    """
    arguments = [sys.executable, "-m", "mesh_agent._process", json.dumps(asdict(flags))]
    os.execve(sys.executable, arguments, {**_ENVIRONMENT, **os.environ})  # noqa: S606 - no shell wanted
