"""The services and VirtualServices that a Sidecar brings in for the proxies of a namespace.

A Sidecar that brings in ten services of ten thousand costs ten: they are found by indices.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from istio_config.edits import replacements
from istio_config.host_patterns import has
from istio_config.kinds.sidecar import (
    ANY,
    CaptureMode,
    EgressHost,
    SidecarPort,
    SidecarSpec,
    parse_egress_host,
)
from istio_config.kinds.sidecar import EgressListener as ListenerSpec
from istio_config.kinds.virtual_service import Destination, HttpRoute, TcpRoute, TlsRoute
from mesh_model._services import Registry, Service, ServiceKey
from mesh_model._visibility import is_preferred
from mesh_model.sidecars._indices import ServiceIndex, VirtualServiceIndex
from mesh_model.virtual_services._resolved_names import destinations_of_route
from mesh_model.virtual_services._virtual_services import VirtualService


@dataclass(frozen=True, kw_only=True)
class EgressListener:
    """Services that a workload's calls can reach together; without a Sidecar, all that it knows."""

    services: tuple[Service, ...]
    """The oldest first; of a listener with a port only with that port (`Service.ports`)."""
    virtual_services: tuple[VirtualService, ...] = ()
    """Those of the mesh that have hosts here, in the order in which they win."""
    port: SidecarPort | None = None
    """None: the services are reached by all ports that they have."""
    bind: str = ""
    """An IP address or `unix:///path`; empty: as other listeners."""
    capture_mode: CaptureMode = CaptureMode.DEFAULT

    @property
    def is_http_proxy(self) -> bool:
        """Whether the workload speaks to it as to an HTTP proxy; all ports are reached by it."""
        return self.port is not None and self.port.is_http_proxy

    def replacing(self, change: Callable[[Service], Service]) -> "EgressListener":
        """Return the listener with each service changed; itself, if none is."""
        services = tuple(map(change, self.services))
        same = not replacements(self.services, services)
        return self if same else replace(self, services=services)


def with_ports(service: Service, numbers: frozenset[int] | None) -> Service:
    """Return a service with only the ports of these numbers; None: with all."""
    if numbers is None or all(port.number in numbers for port in service.ports):
        return service
    return replace(service, ports=tuple(port for port in service.ports if port.number in numbers))


Ports = frozenset[int] | None
"""Numbers of ports; None: all of a service."""


def destinations(virtual_service: VirtualService, namespace: str) -> Mapping[str, Ports]:
    """Return hosts with the ports to which routes lead that proxies of a namespace can take."""
    found: dict[str, set[int] | None] = {}
    for each in _with_all(virtual_service, namespace):
        host = each.host.lower()
        number = each.port_number
        ports = found.setdefault(host, set())
        if number is None:
            found[host] = None
        elif ports is not None:
            ports.add(number)
    return {host: None if ports is None else frozenset(ports) for host, ports in found.items()}


def _with_all(virtual_service: VirtualService, namespace: str) -> Iterator[Destination]:
    spec = virtual_service.spec
    for http in spec.http:
        if _is_for(http, namespace):
            yield from destinations_of_route(http)
    connections: tuple[TlsRoute | TcpRoute, ...] = (*spec.tls, *spec.tcp)
    for route in connections:
        if _is_for(route, namespace):
            yield from (each.destination for each in route.route if each.destination is not None)


def _is_for(route: HttpRoute | TlsRoute | TcpRoute, namespace: str) -> bool:
    return not route.match or any(
        match.source_namespace in ("", namespace) for match in route.match
    )


_EVERYTHING = ListenerSpec(hosts=("*/*",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """The services and VirtualServices from which a Sidecar of one namespace can import."""

    namespace: str
    by_key: Mapping[ServiceKey, Service]
    services: ServiceIndex
    virtual_services: VirtualServiceIndex
    aliased: Callable[[str], ServiceKey | None]
    """Returns the service for which an ExternalName service stands, by the host of that."""
    visible: Callable[[str], Mapping[str, Service]]
    """Returns all services that a namespace sees, by host, the oldest first."""
    providers: Sequence[tuple[str, int]] = ()
    """The services of extension providers, which the proxies call: each with its port."""


def egress_listeners(spec: SidecarSpec, imports: Imports) -> tuple[EgressListener, ...]:
    """Return the listeners of a Sidecar; one without any has all services."""
    return tuple(_listener(each, imports) for each in spec.egress or (_EVERYTHING,))


def known_services(
    listeners: Sequence[EgressListener], spec: SidecarSpec, imports: Imports
) -> dict[str, Service]:
    """Return by host the services that routes of these listeners can lead to.

    Those are the listeners' own, those to which VirtualServices send traffic from there, and those
    of extension providers, which the proxies call.
    """
    known = _KnownServices()
    for listener in listeners:
        for service in listener.services:
            whole = imports.by_key[service.namespace, service.host]
            known.add(whole, None if whole is service else _numbers(service))
    for listener in listeners:
        port = listener.port
        only = frozenset({port.number}) if port is not None and _is_one_port(listener) else None
        for virtual_service in listener.virtual_services:
            for host, ports in destinations(virtual_service, imports.namespace).items():
                _add_destination(known, host, ports if only is None else only, imports)
    policy = spec.outbound_traffic_policy
    proxy = policy.egress_proxy if policy is not None else None
    if proxy is not None:
        _add_destination(known, proxy.host.lower(), None, imports)
    for service_name, number in imports.providers:
        namespace, _, host = service_name.lower().rpartition("/")
        _add_destination(known, host, frozenset({number}), imports, namespace=namespace)
    return known.services()


def _numbers(service: Service) -> frozenset[int]:
    return frozenset(port.number for port in service.ports)


def _is_one_port(listener: EgressListener) -> bool:
    return listener.port is not None and bool(listener.port.number) and not listener.is_http_proxy


def _listener(spec: ListenerSpec, imports: Imports) -> EgressListener:
    hosts = [parse_egress_host(each, imports.namespace) for each in spec.hosts]
    wanted = [each for each in hosts if not each.is_excluded]
    excluded = [each for each in hosts if each.is_excluded]
    listener = EgressListener(
        services=(), port=spec.port, bind=spec.bind, capture_mode=spec.capture_mode
    )
    port = spec.port.number if spec.port is not None and _is_one_port(listener) else None
    found = _services(wanted, excluded, imports, port)
    routes = (
        each
        for host in wanted
        for each in imports.virtual_services.find(host.namespace, host.host)
        if not any(
            out.namespace in (ANY, each.namespace) and all(has(out.host, own) for own in each.hosts)
            for out in excluded
        )
    )
    return EgressListener(
        services=tuple(found),
        virtual_services=imports.virtual_services.in_order(routes, imports.namespace),
        port=spec.port,
        bind=spec.bind,
        capture_mode=spec.capture_mode,
    )


def _services(
    wanted: Sequence[EgressHost],
    excluded: Sequence[EgressHost],
    imports: Imports,
    port: int | None,
) -> Iterator[Service]:
    """Yield the services that entries have, of each host those of one namespace."""
    if port is None and not excluded and any(each.is_everything for each in wanted):
        yield from imports.visible(imports.namespace).values()
        return
    keys = {key for each in wanted for key in imports.services.find(each.namespace, each.host)}
    owners: dict[str, str] = {}
    found: list[Service] = []
    for key in sorted(keys, key=imports.services.order.__getitem__):
        service = imports.by_key[key]
        if not service.visible_in(imports.namespace) or any(
            each.namespace in (ANY, service.namespace) and has(each.host, service.host)
            for each in excluded
        ):
            continue
        if port is not None and service.port(port) is None:
            continue
        found.append(service)
        owner = owners.setdefault(service.host, service.namespace)
        older = imports.by_key[owner, service.host]
        if owner != service.namespace and is_preferred(service, older, imports.namespace):
            owners[service.host] = service.namespace
    for service in found:
        if owners[service.host] == service.namespace:
            yield with_ports(service, None if port is None else frozenset({port}))


def _add_destination(
    known: "_KnownServices", host: str, ports: Ports, imports: Imports, *, namespace: str = ""
) -> None:
    """Add a host's service: that of a namespace, or else the one that proxies would choose."""
    own = imports.by_key.get((namespace or imports.namespace, host))
    if own is None and not namespace:
        seen = [
            service
            for key in imports.services.find(ANY, host)
            if (service := imports.by_key[key]).visible_in(imports.namespace)
        ]
        seen.sort(key=lambda each: each.registry is not Registry.KUBERNETES)
        own = seen[0] if seen else None
        if own is None and (key := imports.aliased(host)) is not None:
            own = imports.by_key[key]
    if own is None or not own.visible_in(imports.namespace):
        return
    if ports is None:
        known.add(own, None)
    elif numbers := ports & _numbers(own):
        known.add(own, numbers)


def _all(service: Service, ports: Ports) -> frozenset[int]:
    return _numbers(service) if ports is None else ports


class _KnownServices:
    """Services by host, each once, with the ports that are known of it."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Service, Ports]] = {}

    def add(self, service: Service, numbers: Ports) -> None:
        known = self._found.get(service.host)
        if known is None:
            self._found[service.host] = service, numbers
            return
        before, ports = known
        if before is service:
            both = None if ports is None or numbers is None else ports | numbers
            self._found[service.host] = service, both
        elif (
            _all(before, ports) != _all(service, numbers)
            and service.registry is Registry.KUBERNETES
            and before.registry is not Registry.KUBERNETES
        ):
            self._found[service.host] = service, numbers

    def services(self) -> dict[str, Service]:
        return {host: with_ports(*each) for host, each in self._found.items()}
