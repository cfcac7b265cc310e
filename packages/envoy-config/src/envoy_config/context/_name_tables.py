"""The name tables of proxies whose agents answer DNS."""

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._cache import Cache
from envoy_config.context._listeners import Listeners
from envoy_config.context._scopes import Scopes
from envoy_config.context._shapes import NameTableShape
from envoy_config.generate._name_table import NAME_TABLE, name_table
from mesh_model import same_names
from xds_server import Generated, Resource


class NameTables:
    """Makes the name tables of one model's proxies, and keeps them."""

    def __init__(self, scopes: Scopes, listeners: Listeners) -> None:
        self._scopes = scopes
        self._listeners = listeners
        self._of_shape = Cache[NameTableShape, Generated]()

    def for_shape(self, shape: NameTableShape) -> Generated:
        """Return the name table of the proxies of a shape."""
        return self._of_shape.get(shape, self._make)

    def adopt(self, before: "NameTables", change: ModelChange) -> None:
        """Take over the tables that the change leaves as they are."""
        if not change.same_scopes:
            return
        same = same_names(change.old, change.new, change.services)

        def differs(shape: NameTableShape) -> bool:
            return not (same.endpoints if shape.has_endpoint_addresses else same.addresses)

        self._of_shape.adopt(before._of_shape, but=filter(differs, before._of_shape))

    def _make(self, shape: NameTableShape) -> Generated:
        outbound = shape.outbound
        table = name_table(
            self._scopes.get(shape.scope).services.values(),
            domain=shape.domain,
            naming=shape.naming,
            address=outbound.address if outbound is not None else "",
            listeners=frozenset(self._listeners.outbound(outbound).listeners)
            if outbound is not None
            else None,
        )
        return Generated(resources=(Resource.pack(table, name=NAME_TABLE),))
