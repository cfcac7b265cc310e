"""Clusters: the services that a proxy connects to, the application beside it, and fixed ones."""
