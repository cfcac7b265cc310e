"""Finds configuration without effect: no proxy can reach it, nothing uses it, or it is shadowed."""
