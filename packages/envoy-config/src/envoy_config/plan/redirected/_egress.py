"""The listeners for calls that a Sidecar asks for, as redirected proxies need them.

A listener that the workload connects to itself (captureMode NONE, a Unix socket) is bound, to the
loopback address unless the Sidecar says where. One with a port comes before those for all ports,
and what it has listened for is left to it.
"""

from dataclasses import dataclass, replace

from envoy_config.plan import _envoy_names as names
from envoy_config.plan.l4._chains import TcpTarget, WeightedCluster, to_cluster
from envoy_config.plan.l4._routes import ConnectionRoutes
from envoy_config.plan.l4._scoped import routes_in, targets_in
from envoy_config.plan.l4._targets import NO_SETTINGS, Targets
from envoy_config.plan.redirected._listeners import LOOPBACKS, IpVersions
from istio_config.addresses import socket_path
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.sidecar import CaptureMode
from mesh_model import EgressListener, MeshModel, Port, Scope, Service


@dataclass(frozen=True, kw_only=True)
class Egress:
    """Services that are reached together, where they are listened for, and their routes."""

    services: tuple[Service, ...]
    routes: ConnectionRoutes
    targets: Targets
    bind: str = ""
    """An IP address or `unix:///path`; empty: the services' own, or all addresses."""
    is_bound: bool = False
    is_http_proxy: bool = False
    number: int | None = None
    """The port of the listener; None: those of its services; 0: of a Unix socket."""
    protocol: Protocol | None = None
    """Of the port, if it has one (AUTO: it declares none); else the services'."""

    @property
    def has_port(self) -> bool:
        """Whether the Sidecar asks for one port, and not for all that the services have."""
        return self.number is not None

    def is_plain_for(self, service: Service) -> bool:
        """Return whether a service has the listeners here that it has without any rule."""
        if self.has_port or self.bind or self.is_bound:
            return False
        return all(
            port.protocol.is_http or self.targets.settings(service, port) == NO_SETTINGS
            for port in service.ports
        ) and not self.routes.for_host(service.host)

    def declared(self, port: Port) -> Port:
        """Return a service's port with the protocol that it has here."""
        if self.protocol is None or self.protocol is port.protocol:
            return port
        return replace(port, protocol=self.protocol)

    @property
    def route(self) -> str | None:
        """The name of the routes that all HTTP here has; None: that of each port."""
        if self.number == 0:
            return self.bind
        if self.is_http_proxy and self.number is not None:
            return names.http_proxy_route(self.number)
        return None


def egress_in(scope: Scope, model: MeshModel, ips: IpVersions) -> tuple[Egress, ...]:
    """Return the listeners of a scope, those with a port first."""
    targets = targets_in(scope, model)
    found = [_egress(each, scope, targets, ips) for each in scope.egress]
    return tuple(sorted(found, key=lambda each: not each.has_port))


def _egress(each: EgressListener, scope: Scope, targets: Targets, ips: IpVersions) -> Egress:
    routes = routes_in(scope, each)
    is_socket = bool(each.bind) and socket_path(each.bind) is not None
    is_bound = is_socket or each.capture_mode is CaptureMode.NONE
    bind = each.bind
    if not bind and is_bound:
        bind = LOOPBACKS[ips.versions[0]]
    number = protocol = None
    if each.port is not None:
        number = 0 if is_socket else each.port.number
        protocol = each.port.known_protocol
    return Egress(
        services=each.services,
        routes=routes,
        targets=targets,
        bind=bind,
        is_bound=is_bound,
        is_http_proxy=each.is_http_proxy,
        number=number,
        protocol=None if each.is_http_proxy else protocol,
    )


def unknown_target(scope: Scope) -> TcpTarget:
    """Return the target of connections to places that the mesh does not know."""
    policy = scope.outbound_policy
    if not policy.allows_any:
        return to_cluster(names.BLACK_HOLE)
    cluster = names.egress_proxy_cluster(policy.egress_proxy, scope.by_name)
    if cluster is None:
        return to_cluster(names.PASSTHROUGH)
    return TcpTarget(stat_prefix=cluster, clusters=(WeightedCluster(cluster),))
