"""Telemetry: what proxies log, trace and count."""
