"""Which hosts of a VirtualService a gateway's server serves.

A server's host may name the namespace whose VirtualServices have it. One that names none is for
those of its own namespace and, where namespaces govern their own hosts alone, for those of others
whose host it is.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

from envoy_config.plan.l4._routes import VirtualService
from istio_config.host_patterns import narrower
from istio_config.kinds.gateway import ServerHost


class BoundVirtualService(VirtualService, Protocol):
    """The part of a VirtualService by which it is bound to the servers of gateways."""

    @property
    def own_hosts(self) -> AbstractSet[str]:
        """The hosts of it that are its namespace's."""


def bound_hosts(
    server: Iterable[ServerHost], found: BoundVirtualService, *, gateway_namespace: str
) -> tuple[str, ...]:
    """Return the hosts that both have, each by the narrower of the two patterns; empty: unbound."""
    usable = tuple(server)
    both = (
        narrower(each.host, own)
        for own in found.hosts
        for each in usable
        if _is_open(each, own, found, gateway_namespace)
    )
    return tuple(dict.fromkeys(each for each in both if each is not None))


def _is_open(
    server: ServerHost, host: str, found: BoundVirtualService, gateway_namespace: str
) -> bool:
    if server.namespace != "*":
        return server.namespace == found.namespace
    return found.namespace == gateway_namespace or host in found.own_hosts
