"""Services and endpoints of a mesh, made of the objects that describe them as these change."""
