"""The push context that is served, and the model that the next one is to show."""

from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._affected import concerns
from mesh_discovery.push._context import PushContext
from xds_server import Client, PushRequest


class PushContexts:
    """Replaces the push context as a whole: every push sees one from start to end."""

    def __init__(self, model: MeshModel) -> None:
        self.current = PushContext(model)
        self.pending = model
        """The model that the next push is to show."""
        self._last_complete = self._before = model

    def build(self, request: PushRequest | None = None) -> None:
        """Make the pending model the one that is served.

        An incremental change may be built before another that is older. The services that the
        older one removes are then still to be removed from the proxies that saw them before.
        """
        if self.pending is not self.current.model:
            self.current = PushContext(self.pending, before=self.current)
        if request is None or not request.incremental:
            self._before, self._last_complete = self._last_complete, self.pending

    def needs_push(self, client: Client[Proxy], push: PushRequest) -> bool:
        """Tell whether a change could be seen by a client; in doubt it could."""
        return concerns(client.context, push, (self.current.model, self._before))
