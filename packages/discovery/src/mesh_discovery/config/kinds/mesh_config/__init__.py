"""MeshConfig: the settings of a whole mesh, with Istio's defaults."""
