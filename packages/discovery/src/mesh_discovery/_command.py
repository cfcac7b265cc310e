"""Where the command `mesh-discovery` starts: nothing is loaded yet but this."""

import gc
import os
import sys


def main() -> None:
    """Run the command line."""
    # gRPC's core reports on stderr, past all handlers, each peer that leaves, each handshake that
    # fails; it reads this when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if sys.argv[1:2] == ["discovery"]:
        gc.disable()  # until all is loaded: there is no garbage in modules
    from mesh_discovery.commands._cli import main as run

    run()
