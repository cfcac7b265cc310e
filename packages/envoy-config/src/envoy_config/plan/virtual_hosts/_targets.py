"""Where the destinations of a VirtualService lead, for the proxies of a scope: clusters."""

from collections.abc import Mapping
from typing import NamedTuple

from envoy_config.plan._envoy_names import outbound_cluster
from envoy_config.plan._traffic_policy import effective_policy, route_hash
from envoy_config.plan.virtual_hosts._routed_hosts import PortService
from istio_config.kinds.destination_rule import ClientTlsMode, ConsistentHash
from istio_config.kinds.virtual_service import Destination, VirtualServiceSpec
from mesh_model import Rule, Scope, http_destinations


class Target(NamedTuple):
    """A cluster, and by which property of requests it chooses endpoints."""

    cluster: str
    hashing: ConsistentHash | None = None
    own_alpn: bool = False
    """Whether TLS offers the protocols that the cluster has, and not those of the mesh."""


Targets = Mapping[Destination, Target]


def http_targets(spec: VirtualServiceSpec, port: int, scope: Scope) -> Targets:
    """Return the targets of all destinations of HTTP routes, for requests to a port.

    Equal targets give equal routes: what a proxy's scope means to a VirtualService is in them.
    """
    found: dict[Destination, Target] = {}
    for each in http_destinations(spec):
        if each not in found:
            found[each] = target(each, port, scope)
    return found


def target(destination: Destination, port: int, scope: Scope) -> Target:
    """Return a destination's target; an unknown host or subset has a cluster's name all the same.

    Its port is the one that it names, the service's only one, or that of the request. An alias
    stands for its target.
    """
    found = scope.by_name.find(destination.host)
    number = destination.port_number
    if number is None:
        number = (found.only_port if found is not None else None) or port
    if found is None:
        return Target(f"outbound|{number}|{destination.subset}|{destination.host}")
    rule = scope.rule(found.service)
    return Target(
        f"outbound|{number}|{destination.subset}|{found.service.host}",
        route_hash(rule, destination.port_number, destination.subset),
        own_alpn=_has_own_alpn(scope, rule, number, destination.subset),
    )


def service_target(found: PortService, scope: Scope) -> Target:
    """Return the target of a service's port, where no VirtualService applies to it."""
    service, port = found
    rule = scope.rule(service)
    return Target(
        outbound_cluster(service, port),
        route_hash(rule, port.number),
        own_alpn=_has_own_alpn(scope, rule, port.number, ""),
    )


def _has_own_alpn(scope: Scope, rule: Rule | None, port: int, subset: str) -> bool:
    """Return whether TLS to a cluster is not the mesh's, at proxies that say its protocols."""
    if rule is None or not (scope.redirected or not scope.key.is_sidecar):
        return False
    tls = effective_policy(rule, port, subset, None).tls
    return tls is not None and tls.mode in (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL)
