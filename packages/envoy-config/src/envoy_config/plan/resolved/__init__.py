"""Telemetry and extensions of a proxy, resolved: equal ones make the same listeners."""
