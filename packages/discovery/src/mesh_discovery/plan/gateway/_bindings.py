"""Which hosts of a VirtualService a gateway's server serves."""

from collections.abc import Iterable

from mesh_discovery._host_patterns import narrower
from mesh_discovery.config.kinds.gateway._hosts import ServerHost


def bound_hosts(
    server: Iterable[ServerHost], *, namespace: str, hosts: Iterable[str]
) -> tuple[str, ...]:
    """Return the hosts that both have, each by the narrower of the two patterns; empty: unbound.

    namespace, hosts: of the VirtualService; a server's host may be for one namespace alone.
    """
    usable = [each.host for each in server if each.namespace in ("*", namespace)]
    found = (narrower(each, own) for own in hosts for each in usable)
    return tuple(dict.fromkeys(each for each in found if each is not None))
