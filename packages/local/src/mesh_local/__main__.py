"""`python -m mesh_local`."""

from mesh_local._command import main

main()
