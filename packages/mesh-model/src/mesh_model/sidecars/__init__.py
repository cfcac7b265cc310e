"""Sidecar objects: which one a proxy has, and which services and routes it brings in."""
