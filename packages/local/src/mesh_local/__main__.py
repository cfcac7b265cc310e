"""`python -m mesh_local`."""

from mesh_local._entry import main

main()
