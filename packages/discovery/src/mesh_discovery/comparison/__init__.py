"""Compares what a proxy would be given with what a running Envoy has."""
