"""Finds what is configured and comes to nothing: no proxy can reach it, or nothing uses it."""
