"""Facts that the settings depend on and only the machine knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh_traffic_capture.config._capture_config import IPAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The machine, as far as the settings depend on it; `look_up_facts` looks."""

    has_ipv4: bool = True
    """Whether an interface has an IPv4 address that is neither loopback nor link-local."""
    has_ipv6: bool = False
    """Likewise of IPv6."""
    dns_servers: tuple[IPAddress, ...] = ()
    """Those of resolv.conf."""
    users: Mapping[str, int] = field(default_factory=dict)
    """The ids of users by name."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """The ids of groups by name."""
