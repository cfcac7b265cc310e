"""`python -m mesh_discovery` is the command `mesh-discovery`."""

from mesh_discovery._command import main

main()
