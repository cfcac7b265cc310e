"""Where the command `mesh-discovery` starts: nothing is loaded yet but this."""

import gc
import os
import sys

_INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def main() -> None:
    """Run the command line."""
    # gRPC's core reports on stderr, past all handlers, each peer that leaves, each handshake that
    # fails; it reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if sys.argv[1:2] == ["discovery"]:
        gc.disable()  # until all is loaded: there is no garbage in modules
    try:
        from mesh_discovery.commands._cli import main as run

        run()
    except KeyboardInterrupt:  # while that was loaded
        sys.exit(_INTERRUPTED)
