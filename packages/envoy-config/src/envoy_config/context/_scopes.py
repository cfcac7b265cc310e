"""The scopes of the proxies that are connected, each found once for all that know the same."""

from collections.abc import Mapping
from dataclasses import replace

from envoy_config._cache import Cache
from envoy_config.changes._model_change import ModelChange
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

    def of(self, proxy: Proxy) -> Scope:
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
        for namespace, seen in before._visible.items():
            here = dict(seen)
            for (owner, host), now in change.replaced.items():
                known = here.get(host)
                if known is not None and known.namespace == owner:
                    here[host] = now
            self._visible.put(namespace, here)
        if not change.same_scopes:
            if change.same_sidecars:
                self._adopt_with_rules(before, change)
            return
        self._keys.adopt_but(before._keys, ())
        for key, scope in before._scopes.items():
            if key.sidecar is None or change.same_ports:
                self._scopes.put(key, scope.with_services(change.replaced))

    def _adopt_with_rules(self, before: "Scopes", change: ModelChange) -> None:
        """Take over the scopes with the rules that are there now."""
        if change.old.labels_looked_at != change.new.labels_looked_at:
            return
        self._keys.adopt_but(before._keys, ())
        rules = change.new.destination_rules
        for key, scope in before._scopes.items():
            # A Sidecar imports services by the VirtualServices that lead to them, too.
            if key.sidecar is None or (change.same_ports and change.same_virtual_services):
                now = replace(scope.with_services(change.replaced), rules=rules)
                if not change.same_virtual_services and key.is_sidecar:
                    routes = change.new.virtual_services.of_mesh(key.namespace)
                    egress = (replace(each, virtual_services=routes) for each in now.egress)
                    now = replace(now, egress=tuple(egress))
                self._scopes.put(key, now)

    def _find_key(self, proxy: Proxy) -> ScopeKey:
        return scope_key(
            self._model,
            namespace=proxy.namespace,
            labels=proxy.labels,
            is_sidecar=proxy.is_sidecar,
            captured=proxy.is_captured,
        )

    def _find_scope(self, key: ScopeKey) -> Scope:
        return find_scope(key, self._model, self.visible)

    def _find_visible(self, namespace: str) -> Mapping[str, Service]:
        return visible_services(self._model.services, namespace)
