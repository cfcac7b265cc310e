"""The output of `mesh-local`: the screen of a mesh and the report of each check."""
