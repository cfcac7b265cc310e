"""Resources of the control plane are adapted to an Envoy that is not Istio's own.

The library is loaded with the first response for an Envoy, and not by an agent without one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xds_adapter import Adaptation, Adapter

_LISTS_EXTENSIONS = b"envoy.filters.network.http_connection_manager"


class EnvoyAdapter:
    """A rewriter of the relay; keeps what it has adapted."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None

    @property
    def adaptations(self) -> "Sequence[Adaptation]":
        """The kinds of adaptations so far."""
        return () if self._adapter is None else self._adapter.adaptations

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Return whether this Envoy may need other resources of a type. node: its description.

        A gRPC program, which lists no extensions, does not.
        """
        if self._adapter is None:
            if _LISTS_EXTENSIONS not in node:
                return False
            import xds_adapter

            self._adapter = xds_adapter.Adapter()
        return self._adapter.concerns(node, type_url)

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the resources as this Envoy can take them."""
        if self._adapter is None:
            return bodies
        return await self._adapter.rewrite(node, type_url, bodies)

    def describe(self) -> Sequence[Mapping[str, object]]:
        """Return what was adapted, for the agent's status."""
        return [
            {
                "extension": each.extension,
                "action": str(each.action),
                "lost": each.lost,
                "times": each.times,
            }
            for each in self.adaptations
        ]
