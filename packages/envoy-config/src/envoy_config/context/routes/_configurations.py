"""The route configurations of sidecars, by name."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from envoy_config.changes._model_change import ModelChange
from envoy_config.changes._rule_changes import RuleChanges
from envoy_config.context._cache import MOST_NAMES, Cache
from envoy_config.context._scopes import MOST_SCOPES, Scopes
from envoy_config.context._shapes import RouteHeaders, RouteShape
from envoy_config.context.routes._port_hosts import HostPart, PartIndex, PortHosts
from envoy_config.context.routes._virtual_hosts import VirtualHosts
from envoy_config.generate.routes._virtual_hosts import (
    CONFIGURATION_TYPE,
    packed_names,
    packed_settings,
    route_configuration,
    unknown_hosts,
    virtual_host,
)
from envoy_config.plan import _envoy_names as names
from envoy_config.plan.virtual_hosts._domains import service_domains, with_port
from envoy_config.plan.virtual_hosts._routed_hosts import (
    PortService,
    RoutedHost,
    routed_hosts,
    services_on,
)
from istio_config.addresses import bracketed, socket_path
from mesh_model import EgressListener, MeshModel, Scope, ScopeKey, VirtualService
from xds_server import Generated, Resource, content_version


class RouteName(NamedTuple):
    """A route configuration, as the proxies of a scope and a domain have it."""

    scope: ScopeKey
    domain: str
    name: str
    headers: RouteHeaders


class _Asked(NamedTuple):
    """The proxies that a route configuration is for."""

    scope: Scope
    domain: str
    headers: RouteHeaders

    @property
    def settings(self) -> bytes:
        """The settings of their virtual hosts."""
        return packed_settings(counts_attempts=self.headers.counts_attempts)


class Routes:
    """Makes the route configurations of one model's sidecars, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._scopes = scopes
        self._hosts = VirtualHosts(model)
        self._of_shape = Cache[RouteShape, Generated](
            most=MOST_NAMES, weigh=lambda shape: len(shape.names) + 1
        )
        self._configurations = Cache[RouteName, Resource | None](most=MOST_SCOPES)
        self._ports = Cache[RouteName, PortHosts](most=MOST_SCOPES)
        self._rule_changes = RuleChanges(model.destination_rules)

    def for_shape(self, shape: RouteShape) -> Generated:
        """Return the route configurations of a shape's names; one that can't be is left out."""
        return self._of_shape.get(shape, self._make)

    def adopt(self, before: "Routes", change: ModelChange, held: AbstractSet[ScopeKey]) -> None:
        """Take over the route configurations that the change leaves as they are, and parts.

        held: the scopes of which proxies may still ask.
        """
        domains = {each.domain for each, _ in before._ports.known() if each.scope in held}
        self._hosts.adopt(before._hosts, change, held, domains)
        if change.only_endpoints:
            self._configurations.adopt(before._configurations)
            self._ports.adopt(before._ports)
        if change.same_settings and change.same_but_endpoints:
            self._ports.remember(before._ports, where=lambda key: key.scope in held)

    def _make(self, shape: RouteShape) -> Generated:
        found = (
            self._configurations.get(
                RouteName(shape.scope, shape.domain, each, shape.headers), self._make_one
            )
            for each in sorted(shape.names)
        )
        return Generated(resources=tuple(each for each in found if each is not None))

    def _make_one(self, key: RouteName) -> Resource | None:
        scope = self._scopes.get(key.scope)
        name, asked = key.name, _Asked(scope, key.domain, key.headers)
        if name == names.HTTP_PROXY_ROUTE:
            return _resource(name, self._all_ports(asked, scope.egress), ignores_ports=False)
        if (explicit := _explicit(name, scope)) is not None:
            return _resource(name, self._all_ports(asked, (explicit,)), ignores_ports=False)
        host, colon, number = name.rpartition(":")
        if colon:
            return self._service_port(name, asked, host, number)
        if not (name.isascii() and name.isdecimal() and 1 <= int(name[:6]) <= 65535):
            return None
        listener = scope.egress_for(int(name))
        # A name that no listener has is answered all the same, so that no one waits for it.
        if listener is None:
            return _resource(name, [])
        found = self._ports.renew(
            key, lambda _, before: self._one_port(before, int(name), asked, listener)
        )
        if found.resource is None:
            found = replace(found, resource=_resource(name, found.bodies))
            self._ports.put(key, found)
        return found.resource

    def _one_port(
        self, before: PortHosts | None, number: int, asked: _Asked, listener: EgressListener
    ) -> PortHosts:
        """Return the virtual hosts of a port; most may be those of an earlier model."""
        policy, rules = asked.scope.outbound_policy, asked.scope.rules
        if (
            before is not None
            and before.outbound_policy == policy
            and before.is_of(listener.services)
        ):
            patched = before.with_rules(
                listener.virtual_services,
                rules,
                self._rule_changes.since(before.rules),
                routes_of=lambda host: self._routes(host, number, asked),
                applies=lambda each: bool(self._of_virtual_service(each, number, asked)),
            )
            if patched is not None:
                return patched
        return self._whole_port(number, asked, listener)

    def _whole_port(self, number: int, asked: _Asked, listener: EgressListener) -> PortHosts:
        scope, domain, settings = asked.scope, asked.domain, asked.settings
        taken: set[str] = set()
        found: list[tuple[str, HostPart]] = []
        for each in self._routed(number, asked, listener):
            name = f"{each.host}:{number}"
            routes = self._routes(each, number, asked)
            known = self._hosts.names(each.found, domain) if each.found is not None else None
            if (
                known is not None
                and taken.isdisjoint(known.domains)
                and not _is_short_for_other(known.domains, each.host, scope)
            ):
                taken.update(known.domains)
                found.append((name, HostPart.build(each, known.packed, routes, settings)))
            elif free := _free(_domains(each, domain, scope), taken):
                packed = packed_names(name, free)
                found.append((name, HostPart.build(each, packed, routes, settings)))
        parts = dict(sorted(found, key=lambda each: each[0]))
        return PortHosts(
            services=listener.services,
            virtual_services=listener.virtual_services,
            rules=scope.rules,
            outbound_policy=scope.outbound_policy,
            parts=parts,
            index=PartIndex.build(parts),
            unknown=tuple(_unknown(asked, taken)),
        )

    def _all_ports(self, asked: _Asked, listeners: Iterable[EgressListener]) -> list[bytes]:
        """Return the virtual hosts of the HTTP proxy, where each host has its port."""
        settings = asked.settings
        taken: set[str] = set()
        found: list[tuple[str, bytes]] = []
        for listener in listeners:
            ports = {
                port.number
                for service in listener.services
                for port in service.ports
                if port.protocol.is_http
            }
            for number in sorted(ports | {80}):
                for each in self._routed(number, asked, listener):
                    domains = _domains(each, asked.domain, asked.scope)
                    # At a socket there are no ports: a bare host means the first that it has.
                    bare = domains if socket_path(listener.bind) is not None else ()
                    if free := _free((*with_port(domains, number), *bare), taken):
                        name = f"{each.host}:{number}"
                        routes = self._routes(each, number, asked)
                        packed = virtual_host(packed_names(name, free), routes, settings)
                        found.append((name, packed))
        return [*_in_order(found), *_unknown(asked, taken)]

    def _service_port(self, name: str, asked: _Asked, host: str, number: str) -> Resource | None:
        """Return the routes of a port of undeclared protocol at a service's own address."""
        scope = asked.scope
        service = scope.services.get(host) if scope.redirected else None
        port = service.port(int(number)) if service is not None and number.isdecimal() else None
        if service is None or port is None:
            return None
        listener = scope.egress_for(port.number)
        virtual_services = listener.virtual_services if listener is not None else ()
        found = PortService(service, port)
        (routed,) = (
            each
            for each in self._routed_by(virtual_services, [found], port.number, asked)
            if each.found is found
        )
        routes = self._routes(routed, port.number, asked)
        packed = virtual_host(packed_names(name, ["*"]), routes, asked.settings)
        return _resource(name, [packed])

    def _routed(self, number: int, asked: _Asked, listener: EgressListener) -> list[RoutedHost]:
        services = services_on(number, listener.services, redirected=asked.scope.redirected)
        return self._routed_by(listener.virtual_services, services, number, asked)

    def _routed_by(
        self,
        virtual_services: tuple[VirtualService, ...],
        services: list[PortService],
        number: int,
        asked: _Asked,
    ) -> list[RoutedHost]:
        return routed_hosts(
            number,
            services,
            virtual_services,
            applies=lambda each: bool(self._of_virtual_service(each, number, asked)),
        )

    def _routes(self, host: RoutedHost, number: int, asked: _Asked) -> bytes:
        if host.virtual_service is not None:
            return self._of_virtual_service(host.virtual_service, number, asked)
        return self._hosts.default(host.found, asked.scope) if host.found is not None else b""

    def _of_virtual_service(self, each: VirtualService, number: int, asked: _Asked) -> bytes:
        forwards_host = asked.headers.forwards_host
        return self._hosts.routes(each, number, asked.scope, forwards_host=forwards_host)


def _unknown(asked: _Asked, taken: set[str]) -> Iterator[bytes]:
    """Yield the virtual host of unknown hosts, unless a VirtualService has all hosts."""
    if "*" in taken:
        return
    policy = asked.scope.outbound_policy
    # Where nothing is intercepted, unknown hosts are looked up in any case.
    looks_up = policy.looks_up and asked.scope.redirected
    rest = names.DYNAMIC_DNS if looks_up else names.PASSTHROUGH
    cluster = names.egress_proxy_cluster(policy.egress_proxy, asked.scope.by_name) or rest
    yield unknown_hosts(
        cluster if policy.allows_any else None,
        redirected=asked.scope.redirected,
        forwards_host=asked.headers.forwards_host,
        settings=asked.settings,
    )


def _explicit(name: str, scope: Scope) -> EgressListener | None:
    """Return the listener of a Sidecar that has routes of its own: an HTTP proxy, or a socket."""
    for each in scope.egress:
        if each.is_http_proxy and each.port is not None:
            if names.http_proxy_route(each.port.number) == name:
                return each
        elif socket_path(each.bind) is not None and each.bind == name:
            return each
    return None


def _domains(host: RoutedHost, proxy_domain: str, scope: Scope) -> tuple[str, ...]:
    if host.found is None:
        return (bracketed(host.host),)
    return service_domains(host.found.service, proxy_domain, full_hosts=scope.services)


def _is_short_for_other(domains: tuple[str, ...], host: str, scope: Scope) -> bool:
    """Return whether one of the domains is another service's own host."""
    return any(each in scope.services and each != host for each in domains)


def _free(domains: tuple[str, ...], taken: set[str]) -> list[str]:
    """Take the domains that are free: Envoy refuses a configuration that has one twice."""
    free = [each for each in dict.fromkeys(domains) if each not in taken]
    taken.update(free)
    return free


def _in_order(found: list[tuple[str, bytes]]) -> list[bytes]:
    return [body for _, body in sorted(found, key=lambda each: each[0])]


def _resource(name: str, hosts: list[bytes], *, ignores_ports: bool = True) -> Resource:
    body = route_configuration(name, hosts, ignores_ports=ignores_ports)
    return Resource(
        name=name,
        type_url=CONFIGURATION_TYPE,
        body=body,
        version=content_version(body),
    )
