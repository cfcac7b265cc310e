"""Secrets on their way: which client gets which, in which order, and what it acknowledged."""
