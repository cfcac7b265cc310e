"""Clients as services see them, reduced to what counts: those that are equal then share."""

from collections.abc import Callable
from typing import Generic, TypeVar

from envoy_config._cache import Cache
from envoy_config.changes._model_change import ModelChange, ServiceKey
from envoy_config.plan._client import Client, ClientFiles
from envoy_config.plan._place import Place
from envoy_config.plan.endpoints._place_dependence import Dependence, place_dependence, reduced
from mesh_model import MeshModel, Rule, ScopeKey, Service

_V = TypeVar("_V")
_MOST_VARIANTS = 500
_NOTHING = Dependence()


def client_of(scope: ScopeKey, place: Place, files: ClientFiles | None = None) -> Client:
    """Return the client that proxies of a scope are, at a place."""
    return Client(
        is_sidecar=scope.is_sidecar,
        captured=scope.captured,
        place=place,
        labels=scope.labels,
        files=files,
    )


class OfServices(Generic[_V]):
    """Values of services, each in variants: by rule, client, and whatever else they depend on.

    They are forgotten by service, and by rule once a rule has gone.
    """

    def __init__(self) -> None:
        self._values = Cache[ServiceKey, dict[tuple[object, ...], _V]]()

    def get(
        self,
        service: Service,
        rule: Rule | None,
        variant: tuple[object, ...],
        make: Callable[[], _V],
    ) -> _V:
        """Return a value of a service, made when it is first asked for."""
        values = self._values.get((service.namespace, service.host), lambda _: {})
        key = (rule, *variant)
        if key not in values:
            if len(values) >= _MOST_VARIANTS:
                values.clear()
            values[key] = make()
        return values[key]

    def adopt(self, before: "OfServices[_V]", change: ModelChange, *, but: set[ServiceKey]) -> None:
        """Take over the values of services but those of `but`, and of rules that are gone."""
        self._values.adopt_but(before._values, but)
        for service in change.rule_change.touched(self._values):
            gone = change.gone_rules
            left = {
                key: value
                for key, value in (self._values.peek(service) or {}).items()
                if id(key[0]) not in gone
            }
            self._values.put(service, left)


class Clients:
    """Finds out what of a client counts for each service, and keeps it."""

    def __init__(self, model: MeshModel) -> None:
        self._model = model
        self._dependence = OfServices[Dependence]()
        self._anywhere = Cache[Client, Client]()

    def reduced(self, client: Client, service: Service, rule: Rule | None) -> Client:
        """Return the client with its place and labels only if they count for a service."""
        if not self._model.uses_location:
            return self._anywhere.get(client, lambda _: reduced(client, _NOTHING))
        found = self._dependence.get(
            service, rule, (), lambda: place_dependence(service, rule, self._model)
        )
        return reduced(client, found)

    def adopt(self, before: "Clients", change: ModelChange) -> None:
        """Take over what the change leaves as it is."""
        if change.same_settings:
            self._dependence.adopt(
                before._dependence, change, but=set(change.services.pairs.keys())
            )
