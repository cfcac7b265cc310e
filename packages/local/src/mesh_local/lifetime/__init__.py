"""The lifetime of a mesh: its start, its stop, and edits of its file meanwhile."""
