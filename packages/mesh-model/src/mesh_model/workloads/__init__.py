"""The workloads of a mesh, their endpoints, and the settings that these are made with."""
