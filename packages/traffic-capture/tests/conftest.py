"""Fixtures are those of mesh-testkit."""
