"""Scopes: the part of the mesh that a proxy knows, shared by all proxies that know the same.

A proxy's scope follows from its namespace, from whether it is a gateway, from the Sidecar object
that selects it, and from those of its labels that rules anywhere look at. Whatever a proxy is sent
of services and rules is made of its scope.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from mesh_discovery.model._destination_rules import NO_RULES, DestinationRules, Rule
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Labels, Service


class ScopeKey(NamedTuple):
    """All that decides which part of the mesh a proxy knows."""

    namespace: str
    is_sidecar: bool = True
    sidecar: tuple[str, str] | None = None
    """Namespace and name of the Sidecar object that selects the proxy."""
    labels: Labels = ()
    """Those of the proxy's labels that rules of the mesh look at."""
    captured: bool = False
    """Whether connections come to the proxy that were going elsewhere."""


@dataclass(frozen=True, kw_only=True)
class EgressListener:
    """Services that a workload's calls can reach together; without a Sidecar, all that it knows."""

    services: tuple[Service, ...]
    """The oldest first."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The part of the mesh that the proxies of one key know."""

    key: ScopeKey
    services: Mapping[str, Service]
    """By host: all to which there are clusters."""
    egress: tuple[EgressListener, ...]
    rules: DestinationRules = NO_RULES

    def rule(self, service: Service) -> Rule | None:
        """Return the rule by which the proxies reach a service."""
        return self.rules.rule_for(self.key.namespace, service, self.key.labels)

    @property
    def captured(self) -> bool:
        """Whether connections come to the proxies that were going elsewhere."""
        return self.key.captured

    def with_services(self, changed: Mapping[tuple[str, str], Service]) -> "Scope":
        """Return the scope with services replaced, by namespace and host; none comes or goes."""
        here = {
            host: now
            for (owner, host), now in changed.items()
            if (known := self.services.get(host)) is not None and known.namespace == owner
        }
        if not here:
            return self
        return replace(
            self,
            services={**self.services, **here},
            egress=tuple(
                replace(each, services=_replaced(each.services, here)) for each in self.egress
            ),
        )


def _replaced(services: Iterable[Service], here: Mapping[str, Service]) -> tuple[Service, ...]:
    return tuple(here.get(each.host, each) for each in services)


def scope_key(
    model: MeshModel,
    *,
    namespace: str,
    labels: Labels,
    is_sidecar: bool = True,
    captured: bool = False,
) -> ScopeKey:
    """Return the key of a proxy's scope."""
    seen = model.labels_looked_at
    return ScopeKey(
        namespace=namespace,
        is_sidecar=is_sidecar,
        labels=tuple((key, value) for key, value in labels if key in seen) if seen else (),
        captured=captured,
    )


def find_scope(key: ScopeKey, model: MeshModel, visible: Mapping[str, Service]) -> Scope:
    """Find what the proxies of a key know; visible: the services exported to their namespace."""
    egress = EgressListener(services=tuple(visible.values()))
    return Scope(key=key, services=visible, egress=(egress,), rules=model.destination_rules)
