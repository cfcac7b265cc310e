"""What the mesh doesn't know: which servers to ask, in which order, and what they said."""
