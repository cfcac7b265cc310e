"""Readiness by DNS: an agent that answers DNS queries is not ready before its first name table.

Until then the workload's queries are answered with SERVFAIL. `mesh_dnsproxy` sets the condition
once, when the first table has been compiled and queries are answered from it; a table stays in use
while the control plane is away, so that the condition is never unset again.
"""

from mesh_lifecycle import Condition, Readiness


def register_dns(readiness: Readiness) -> Condition:
    """Add the condition `dns`, which `mesh_dnsproxy.serving` is given and sets."""
    return readiness.register("dns")
