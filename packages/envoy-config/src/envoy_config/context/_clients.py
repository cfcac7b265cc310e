"""Clients as services see them, reduced to what counts: those that are equal then share."""

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._cache import Cache, ServiceCache
from envoy_config.plan._client import Client, ClientFiles, Location
from envoy_config.plan.endpoints._client_dependence import Dependence, client_dependence, reduced
from mesh_model import MeshModel, Rule, ScopeKey, Service

_NOTHING = Dependence()


def client_of(scope: ScopeKey, location: Location, files: ClientFiles | None = None) -> Client:
    """Return the client that proxies of a scope are, at a location."""
    return Client(
        is_sidecar=scope.is_sidecar,
        redirected=scope.redirected,
        location=location,
        labels=scope.labels,
        files=files,
    )


class Clients:
    """Finds out what of a client counts for each service, and keeps it."""

    def __init__(self, model: MeshModel) -> None:
        self._model = model
        self._dependence = ServiceCache[Dependence]()
        self._anywhere = Cache[Client, Client]()

    def reduced(self, client: Client, service: Service, rule: Rule | None) -> Client:
        """Return the client with its location and labels only if they count for a service."""
        if not self._model.uses_location:
            return self._anywhere.get(client, lambda _: reduced(client, _NOTHING))
        found = self._dependence.get(
            service, rule, (), lambda: client_dependence(service, rule, self._model)
        )
        return reduced(client, found)

    def adopt(self, before: "Clients", change: ModelChange) -> None:
        """Take over what the change leaves as it is."""
        if change.same_settings:
            self._dependence.adopt(before._dependence, change, but=change.services.pairs)
