"""Where the command `certclient` starts, before gRPC is loaded and reads its environment."""

import os


def main() -> None:
    """Run the command line; gRPC's core says nothing on stderr unless the user asked for it.

    It reports each handshake that fails, for its own developers; the command says why in words.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from certclient.command._command import main as run

    run()
