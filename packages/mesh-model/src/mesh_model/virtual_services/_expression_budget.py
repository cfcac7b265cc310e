"""The VirtualServices whose regular expressions are too much for the proxies that get them.

Envoy compiles the expressions of a route in its main thread, for each virtual host that has it, and
by default a VirtualService is for every proxy of the mesh. So a namespace has a budget: what its
VirtualServices cost a proxy that gets them all. The oldest have it; those that do not fit are left
out, and cost other namespaces nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from istio_config import ConfigObject
from istio_config.expression_cost import MAX_NAMESPACE_COST
from istio_config.kinds.gateway import GatewaySpec
from mesh_model._services import Service
from mesh_model.virtual_services._resolved_names import MESH

Key = tuple[str, str]
"""Namespace and name."""


class Costly(Protocol):
    """A VirtualService, as far as it matters here."""

    @property
    def namespace(self) -> str:
        """The namespace, which pays."""

    @property
    def name(self) -> str:
        """The name in the namespace."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it routes, in lower case; a wildcard begins with `*`."""

    @property
    def gateways(self) -> tuple[str, ...]:
        """`mesh`, or gateways as `namespace/name`."""

    @property
    def expression_cost(self) -> int:
        """The cost of its expressions in one virtual host."""


class VirtualHostCounts:
    """The number of a proxy's virtual hosts that have a VirtualService's routes, at most."""

    def __init__(
        self, services: Sequence[Service] = (), gateways: Sequence[ConfigObject] = ()
    ) -> None:
        self._services = services
        self._gateways = gateways

    def get(self, virtual_service: Costly) -> int:
        """Return the number for a proxy that has most of them."""
        gateways = [each for each in virtual_service.gateways if each != MESH]
        in_mesh = 0
        if MESH in virtual_service.gateways:
            in_mesh = sum(map(self._of_host, virtual_service.hosts))
        at_gateways = sum(self._servers.get(each, 1) for each in gateways)
        return max(1, in_mesh, at_gateways * len(virtual_service.hosts))

    def _of_host(self, host: str) -> int:
        """Return how many virtual hosts of sidecars a host has: one on each port of a service."""
        if host.startswith("*"):
            return self._ports_below.get(host.partition(".")[2], 1)
        return self._ports.get(host, 1)

    @cached_property
    def _ports(self) -> Mapping[str, int]:
        """How many ports each host has."""
        found: dict[str, int] = {}
        for each in self._services:
            host = each.host
            found[host] = max(found.get(host, 1), len(each.ports))
        return found

    @cached_property
    def _ports_below(self) -> Mapping[str, int]:
        """How many ports the hosts that end in a dot and a name have together; "": all."""
        found: dict[str, int] = {"": sum(self._ports.values())}
        for host, count in self._ports.items():
            rest = host.partition(".")[2]
            while rest:
                found[rest] = found.get(rest, 0) + count
                rest = rest.partition(".")[2]
        return found

    @cached_property
    def _servers(self) -> Mapping[str, int]:
        """How many servers each Gateway has."""
        return {
            f"{each.namespace}/{each.name}": len(each.spec.servers)
            for each in self._gateways
            if isinstance(each.spec, GatewaySpec)
        }


def over_budget(
    costly: Iterable[Costly], counts: VirtualHostCounts, *, most: int = MAX_NAMESPACE_COST
) -> frozenset[Key]:
    """Return those that do not fit into the budget of their namespace.

    costly: the oldest first. most: the budget of a namespace.
    """
    spent: dict[str, int] = {}
    found: set[Key] = set()
    for each in costly:
        cost = each.expression_cost * counts.get(each)
        if spent.get(each.namespace, 0) + cost > most:
            found.add((each.namespace, each.name))
        else:
            spent[each.namespace] = spent.get(each.namespace, 0) + cost
    return frozenset(found)
