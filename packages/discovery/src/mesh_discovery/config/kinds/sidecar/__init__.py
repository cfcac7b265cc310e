"""Sidecar: the part of the mesh that workloads reach, and where their own proxies listen."""
