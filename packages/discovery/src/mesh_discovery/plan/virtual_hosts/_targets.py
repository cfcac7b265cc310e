"""Where the destinations of a VirtualService lead, for the proxies of a scope: clusters."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mesh_discovery.config.kinds.destination_rule._load_balancer import ConsistentHash
from mesh_discovery.config.kinds.virtual_service._destinations import Destination
from mesh_discovery.config.kinds.virtual_service._spec import VirtualServiceSpec
from mesh_discovery.model._scope import Scope
from mesh_discovery.plan._traffic_policy import route_hash


class Target(NamedTuple):
    """A cluster, and by which property of requests it chooses endpoints."""

    cluster: str
    hashing: ConsistentHash | None = None


Targets = Mapping[Destination, Target]


def http_targets(spec: VirtualServiceSpec, port: int, scope: Scope) -> Targets:
    """Return the targets of all destinations of HTTP routes, for requests to a port.

    Equal targets give equal routes: what a proxy's scope means to a VirtualService is in them.
    """
    found: dict[Destination, Target] = {}
    for each in _destinations(spec):
        if each not in found:
            found[each] = target(each, port, scope)
    return found


def target(destination: Destination, port: int, scope: Scope) -> Target:
    """Return a destination's target; an unknown host or subset has a cluster's name all the same.

    Its port is the one that it names, the service's only one, or that of the request.
    """
    service = scope.services.get(destination.host)
    number = destination.port_number
    if number is None:
        only = service is not None and len(service.ports) == 1
        number = service.ports[0].number if service is not None and only else port
    hashing = None
    if service is not None:
        rule = scope.rule(service)
        hashing = route_hash(rule, destination.port_number, destination.subset)
    return Target(f"outbound|{number}|{destination.subset}|{destination.host}", hashing)


def _destinations(spec: VirtualServiceSpec) -> Iterator[Destination]:
    for route in spec.http:
        for each in route.route:
            if each.destination is not None:
                yield each.destination
        if route.mirror is not None:
            yield route.mirror
        for mirror in route.mirrors:
            if mirror.destination is not None:
                yield mirror.destination
