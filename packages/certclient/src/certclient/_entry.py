"""The start of the command `certclient`, before gRPC is loaded and reads its environment."""

import os
import sys

_INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def main() -> None:
    """Run the command line, with gRPC's own log off unless the environment enables it.

    gRPC's core logs each failed handshake on stderr for its own developers; the command reports the
    reason in words.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from certclient.command._command import main as run

        run()
    except KeyboardInterrupt:  # while that was loaded
        sys.exit(_INTERRUPTED)
