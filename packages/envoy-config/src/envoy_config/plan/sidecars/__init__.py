"""Sidecar objects, as far as they have no effect."""
