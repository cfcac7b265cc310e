"""The scopes of the proxies that are connected, each found once for all that know the same."""

from collections.abc import Mapping
from dataclasses import replace

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._cache import Cache
from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel, Scope, ScopeKey, Service, find_scope, scope_key, visible_services

MOST_SCOPES = 1000
"""The most values that hold something of every service and that a new context takes over."""
MOST_OWN = 10_000
"""The most of those for workloads' own ports; each is a few kilobytes."""


class Scopes:
    """Finds the scopes of one model, and keeps them."""

    def __init__(self, model: MeshModel) -> None:
        self._model = model
        self._keys = Cache[Proxy, ScopeKey]()
        self._visible = Cache[str, Mapping[str, Service]](most=MOST_SCOPES)
        self._scopes = Cache[ScopeKey, Scope](most=MOST_SCOPES)

    def key_of(self, proxy: Proxy) -> ScopeKey:
        """Return the key of a proxy's scope."""
        return self._keys.get(proxy, self._find_key)

    def for_proxy(self, proxy: Proxy) -> Scope:
        """Return a proxy's scope."""
        return self.get(self.key_of(proxy))

    def get(self, key: ScopeKey) -> Scope:
        """Return the scope of a key."""
        return self._scopes.get(key, self._find_scope)

    def visible(self, namespace: str) -> Mapping[str, Service]:
        """Return the services that are exported to a namespace, by host."""
        return self._visible.get(namespace, self._find_visible)

    def adopt(self, before: "Scopes", change: ModelChange) -> None:
        """Take over the scopes that the change leaves, with the services that it replaces."""
        if not change.same_visibility:
            return
        self._visible.adopt(before._visible, revise=lambda _, seen: _replaced(seen, change))
        if not change.same_scopes and not (
            change.same_sidecars and change.old.labels_looked_at == change.new.labels_looked_at
        ):
            return
        self._keys.adopt(before._keys)
        self._scopes.adopt(before._scopes, revise=lambda key, scope: _revised(key, scope, change))

    def _find_key(self, proxy: Proxy) -> ScopeKey:
        return scope_key(
            self._model,
            namespace=proxy.namespace,
            labels=proxy.labels,
            is_sidecar=proxy.is_sidecar,
            redirected=proxy.is_redirected,
        )

    def _find_scope(self, key: ScopeKey) -> Scope:
        return find_scope(key, self._model, self.visible)

    def _find_visible(self, namespace: str) -> Mapping[str, Service]:
        return visible_services(self._model.services, namespace)


def _replaced(seen: Mapping[str, Service], change: ModelChange) -> Mapping[str, Service]:
    """Return services by host as they are now."""
    here = dict(seen)
    for (owner, host), now in change.replaced.items():
        known = here.get(host)
        if known is not None and known.namespace == owner:
            here[host] = now
    return here


def _revised(key: ScopeKey, scope: Scope, change: ModelChange) -> Scope | None:
    """Return a scope with its services and rules as they are now; None if it may have others."""
    same_rules, same_routes = change.same_rules, change.same_virtual_services
    # A Sidecar imports services by the VirtualServices that lead to them, too.
    if key.sidecar is not None and not (change.same_ports and (same_rules or same_routes)):
        return None
    now = scope.with_services(change.replaced)
    if same_rules:
        return now
    now = replace(now, rules=change.new.destination_rules)
    if not same_routes and key.is_sidecar:
        routes = change.new.virtual_services.of_mesh(key.namespace)
        egress = (replace(each, virtual_services=routes) for each in now.egress)
        now = replace(now, egress=tuple(egress))
    return now
