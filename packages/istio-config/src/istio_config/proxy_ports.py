"""The ports of a workload's machine that are its proxy's own, and lead to no application.

Envoy's admin interface, and pages of the agent that change something, answer only callers on the
same machine. A proxy is one: a route to such a port would open it to every client of the proxy.
"""

import ipaddress
from collections.abc import Mapping
from types import MappingProxyType

from istio_config.addresses import UNIX

ADMIN_PORT, STATUS_PORT = 15000, 15020
PROXY_PORTS: Mapping[int, str] = MappingProxyType(
    {
        ADMIN_PORT: "Envoy's admin interface",
        15004: "the agent's debug port",
        STATUS_PORT: "the agent's status port",
        15053: "the agent's DNS server",
    }
)
"""What listens on each port, unless the node metadata of a proxy has other ports."""


def may_be_own_machine(address: str) -> bool:
    """Return whether a proxy may reach its own machine by this address.

    It may by every host name, as the owner of the domain decides what it resolves to.
    """
    if address.startswith(UNIX):
        return False
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return parsed.is_loopback or parsed.is_unspecified


def proxy_port_warning(number: int) -> str | None:
    """Return the warning about a service with this port of a workload, or None."""
    what = PROXY_PORTS.get(number)
    if what is None:
        return None
    return (
        f"{number} is {what} beside a workload: no proxy accepts connections on it for its "
        "workload, or leads to it by a host name or a loopback address; give the port of the "
        "application"
    )
