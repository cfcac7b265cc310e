"""The rules in a workload's network: all of its traffic is redirected, but for its Envoy's own.

The Envoy is told by its group alone: it runs as the user who has the Python, which another user
may not be able to read.
"""

from mesh_local._errors import NetworkError

PROXY_GROUP = 1337
"""The group of each workload's agent and Envoy (Istio's)."""
_OWN_PORTS = frozenset({15020, 15021, 15090})
"""Inbound ports of the agent and the Envoy themselves: status, readiness, metrics."""


def apply_rules(dns_port: int | None) -> None:
    """Apply the rules in this thread's network, which is new.

    dns_port: where the agent answers DNS; None if it does not. Raises `NetworkError`.
    """
    # It takes time to load, and most meshes have no rules.
    from mesh_traffic_capture import (
        ALL,
        CaptureConfig,
        DnsCapture,
        TrafficCaptureError,
        apply_capture,
    )

    config = CaptureConfig(
        proxy_uids=frozenset(),
        proxy_gids=frozenset({PROXY_GROUP}),
        inbound_ports=ALL,
        excluded_inbound_ports=_OWN_PORTS,
        outbound_ranges=ALL,
        # The agent asks the hub, with the group that is never redirected.
        dns=None if dns_port is None else DnsCapture(servers=ALL, port=dns_port),
    )
    try:
        apply_capture(config)
    except TrafficCaptureError as error:
        raise NetworkError(f"connections can't be redirected: {error}") from None
