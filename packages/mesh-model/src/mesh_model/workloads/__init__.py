"""The workloads of a mesh, their endpoints, and the settings that endpoints are built with."""
