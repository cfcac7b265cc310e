"""Faults and rules of a mesh in tests: how each begins, and how it is known to be there."""
