"""Readiness by DNS: an agent that answers DNS queries is not ready before its first name table.

Until then the workload's queries are answered with SERVFAIL. A table stays in use while the control
plane is away, so that the condition is never unset again.
"""

from mesh_lifecycle import Condition, Readiness


def register_dns(readiness: Readiness) -> Condition:
    """Add the condition that `mesh_dnsproxy` sets when its first name table is in use."""
    return readiness.register("dns")
