"""Readiness by DNS: an agent that answers DNS queries is not ready before its first name table.

Until then the workload's queries are answered with SERVFAIL, or on port 53 forwarded.
`mesh_dnsproxy.DnsServer` sets the condition once, when it has compiled the first table; a table
stays in use while the control plane is away, so that the condition is never unset again.
"""

from mesh_lifecycle import Condition, Readiness


def register_dns(readiness: Readiness) -> Condition:
    """Add the condition `dns`, which the DNS server is given and sets."""
    return readiness.register("dns")
