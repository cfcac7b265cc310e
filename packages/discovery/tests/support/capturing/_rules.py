"""The rules of a machine: those that the product applies, by the backend of a lab."""

from dataclasses import replace
from typing import Any

from mesh_traffic_capture import ALL, CaptureConfig, Mode

PROXY_GROUP = 1337
"""The group of each Envoy, which runs as root: it needs what only root has in TPROXY mode."""
_INJECTED = CaptureConfig(
    ipv6=True,
    inbound_ports=ALL,
    excluded_inbound_ports=frozenset({15020, 15021, 15090}),
    outbound_ranges=ALL,
)


def capture_config(mode: str, **changes: Any) -> CaptureConfig:
    """Return what injection asks for, for both address families, with other values for fields."""
    return replace(_INJECTED, mode=Mode(mode), **changes)
