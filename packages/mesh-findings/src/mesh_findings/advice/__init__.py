"""Finds what is served as it is configured, and has another effect than people expect."""
