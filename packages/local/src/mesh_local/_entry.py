"""Where the command `mesh-local` starts: nothing is loaded yet but this."""

import sys

_INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def main() -> None:
    """Run the command and exit, also when Ctrl-C comes while its modules are loaded."""
    try:
        from mesh_local._command import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
