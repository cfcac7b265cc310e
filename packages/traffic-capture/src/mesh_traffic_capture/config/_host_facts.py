"""Facts that the settings depend on and only the machine knows."""

from __future__ import annotations

from mesh_traffic_capture._value import field, value
from mesh_traffic_capture.config._capture_config import IPAddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@value
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
