"""Istio YAML as typed configuration objects, each file at its last good content."""
