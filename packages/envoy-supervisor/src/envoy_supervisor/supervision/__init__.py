"""Carries out the decisions: starts, replaces, drains and ends the Envoy processes."""
