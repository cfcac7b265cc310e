"""Hosts found by exact names and wildcards, and what short names mean."""
