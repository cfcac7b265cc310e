"""Asks a running Envoy through its admin interface, and reads its answers."""
