"""Metrics as text of both formats: written, fetched, and merged from several sources."""
