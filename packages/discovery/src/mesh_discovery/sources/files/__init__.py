"""YAML files of a directory, each at its last good content."""
