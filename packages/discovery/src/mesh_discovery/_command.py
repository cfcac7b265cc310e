"""Where the command `mesh-discovery` starts: nothing is loaded yet but this."""

import sys

from mesh_discovery._lean import become_lean


def main() -> None:
    """Run the command line; a server in a process that suits it."""
    if sys.argv[1:2] == ["discovery"]:
        become_lean()
    from mesh_discovery._cli import main as run

    run()
