"""Sidecar objects, as far as they come to nothing."""
