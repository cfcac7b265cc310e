"""A mesh under traffic, faults drawn from a seed, and books that must balance at the end."""
