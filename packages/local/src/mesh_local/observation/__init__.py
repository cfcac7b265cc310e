"""Requests to a running mesh: agents' status, the control plane's findings, the checks."""
