"""The parts of route configurations: generated once, shared by all configurations with them."""

from collections.abc import Set as AbstractSet
from itertools import compress
from operator import attrgetter, not_
from typing import NamedTuple

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._cache import Cache
from envoy_config.generate.routes._actions import default_route
from envoy_config.generate.routes._http_routes import RoutePlace, http_routes
from envoy_config.generate.routes._virtual_hosts import packed_names, packed_routes
from envoy_config.plan.virtual_hosts._domains import service_domains
from envoy_config.plan.virtual_hosts._routed_hosts import PortService
from envoy_config.plan.virtual_hosts._targets import Target, http_targets, service_target
from mesh_model import MeshModel, Scope, ScopeKey, VirtualService


class _RoutesKey(NamedTuple):
    virtual_service: VirtualService
    place: RoutePlace
    targets: tuple[Target, ...]


class _ScopeKey(NamedTuple):
    virtual_service: VirtualService
    place: RoutePlace
    scope: ScopeKey


_SCOPE = attrgetter("scope")
_VIRTUAL_SERVICE = attrgetter("virtual_service")
_LEADS_TO = attrgetter("virtual_service.destination_hosts")


class _DefaultKey(NamedTuple):
    host: str
    port: int
    target: Target


class _NamesKey(NamedTuple):
    namespace: str
    host: str
    port: int
    proxy_domain: str


class HostNames(NamedTuple):
    """The domains of a service, and a virtual host's name and domains serialised."""

    domains: tuple[str, ...]
    packed: bytes


class VirtualHosts:
    """Makes the parts of one model's route configurations, and keeps them."""

    def __init__(self, model: MeshModel) -> None:
        self._model = model
        self._retries = model.mesh_config.default_http_retry_policy
        self._routes = Cache[_RoutesKey, bytes]()
        self._of_scope = Cache[_ScopeKey, bytes]()
        """The same by the scope that decides where they lead."""
        self._defaults = Cache[_DefaultKey, bytes]()
        self._names = Cache[_NamesKey, HostNames]()

    def adopt(
        self,
        before: "VirtualHosts",
        change: ModelChange,
        held: AbstractSet[ScopeKey],
        domains: AbstractSet[str],
    ) -> None:
        """Take over the parts that the change leaves as they are.

        held: the scopes of which proxies may still ask. domains: those of these proxies; names of
        others are kept no longer than services are the same.
        """
        if self._retries == before._retries:
            gone = change.gone_virtual_services
            keys = list(before._routes) if gone else []
            stale = compress(keys, map(gone.__contains__, map(_VIRTUAL_SERVICE, keys)))
            self._routes.adopt(before._routes, but=stale)
            self._adopt_of_scopes(before, change, held)
            self._defaults.adopt(before._defaults)
        changed = change.services.pairs.keys() - change.endpoints_only
        stale_names = (
            key
            for key in (before._names if changed else ())
            if key.proxy_domain not in domains or (key.namespace, key.host) in changed
        )
        self._names.adopt(before._names, but=stale_names)

    def _adopt_of_scopes(
        self, before: "VirtualHosts", change: ModelChange, held: AbstractSet[ScopeKey]
    ) -> None:
        """Take over the routes of VirtualServices that lead to nothing that changed."""
        if change.only_endpoints:
            self._of_scope.adopt(before._of_scope)
            return
        if not change.same_sidecars or change.rule_change.suffixes:
            return
        gone = change.gone_virtual_services
        services = change.services.pairs.keys() - change.endpoints_only
        hosts = change.rule_change.hosts.union(host for _, host in services)
        keys = list(before._of_scope)
        scopes = {id(each): each for each in map(_SCOPE, keys)}.values()
        unsure = {each for each in scopes if each.sidecar is not None or each not in held}
        stale = [each for each in keys if each.scope in unsure] if unsure else []
        if gone:
            stale += compress(keys, map(gone.__contains__, map(_VIRTUAL_SERVICE, keys)))
        if hosts:
            stale += compress(keys, map(not_, map(hosts.isdisjoint, map(_LEADS_TO, keys))))
        self._of_scope.adopt(before._of_scope, but=stale)

    def routes(
        self,
        virtual_service: VirtualService,
        port: int,
        scope: Scope,
        *,
        forwards_host: bool = False,
    ) -> bytes:
        """Return the routes of a VirtualService for a scope's sidecars; none: it has no effect."""
        place = RoutePlace(port, forwards_host=forwards_host)
        if virtual_service.looks_at_source:
            place = place._replace(namespace=scope.key.namespace, labels=scope.key.labels)
        of_scope = _ScopeKey(virtual_service, place, scope.key)
        if (found := self._of_scope.peek(of_scope)) is not None:
            return found
        targets = http_targets(virtual_service.spec, port, scope)
        key = _RoutesKey(virtual_service, place, tuple(targets.values()))
        if (found := self._routes.peek(key)) is None:
            generated = http_routes(virtual_service, place, targets, default_retries=self._retries)
            self._routes.put(key, found := packed_routes(generated))
        self._of_scope.put(of_scope, found)
        return found

    def default(self, found: PortService, scope: Scope) -> bytes:
        """Return the route of a service that no VirtualService applies to."""
        key = _DefaultKey(found.service.host, found.port.number, service_target(found, scope))
        return self._defaults.get(key, self._make_default)

    def names(self, found: PortService, proxy_domain: str) -> HostNames:
        """Return the domains of a service for proxies of a domain, whatever else they know."""
        service, number = found.service, found.port.number
        key = _NamesKey(service.namespace, service.host, number, proxy_domain)
        if (known := self._names.peek(key)) is None:
            domains = service_domains(service, proxy_domain)
            packed = packed_names(f"{service.host}:{number}", domains)
            self._names.put(key, known := HostNames(domains, packed))
        return known

    def _make_default(self, key: _DefaultKey) -> bytes:
        return packed_routes([default_route(key.host, key.port, key.target, retries=self._retries)])
