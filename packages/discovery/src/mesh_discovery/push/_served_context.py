"""The push context that is served now, replaced as a whole at each push."""

from envoy_config import PushContext
from mesh_model import MeshModel
from xds_server import PushRequest


class ServedContext:
    """Holds the push context that generators answer from, and the model for the next one.

    The context is replaced as a whole: every push sees one from start to end.
    """

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

    @property
    def models(self) -> tuple[MeshModel, MeshModel]:
        """The model that is served, and the one before, which proxies may still show."""
        return self.current.model, self._before
