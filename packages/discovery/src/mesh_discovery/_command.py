"""Where the command `mesh-discovery` starts: nothing is loaded yet but this."""

import gc
import os
import sys

from mesh_discovery._lean import become_lean


def main() -> None:
    """Run the command line; a server in a process that suits it."""
    # gRPC's core reports on stderr, past all handlers, each peer that leaves, each handshake that
    # fails; it reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if sys.argv[1:2] == ["discovery"]:
        become_lean()
        gc.disable()  # until all is loaded: there is no garbage in modules
    from mesh_discovery.commands._cli import main as run

    run()
