"""How two models differ: the services that changed, and what that means for proxies.

A service that is the same Python object in both costs next to nothing. The last comparison is kept:
the model that is served and the next one are compared by every generator.
"""

from typing import NamedTuple
from weakref import ref

from istio_config.edits import edits
from mesh_model._destination_rules import DestinationRules
from mesh_model._model import MeshModel
from mesh_model._service_facts import ChangedServices, compared
from mesh_model._services import Service


class _Compared(NamedTuple):
    old: "ref[MeshModel]"
    new: "ref[MeshModel]"
    result: ChangedServices


class _LastCompared:
    """The last comparison: that of the model served and the next one is asked for several times."""

    def __init__(self) -> None:
        self._last: _Compared | None = None

    def get(self, old: MeshModel, new: MeshModel) -> ChangedServices:
        last = self._last
        if last is None or last.old() is not old or last.new() is not new:
            last = self._last = _Compared(ref(old), ref(new), _changed_services(old, new))
        return last.result


_COMPARED = _LastCompared()


def changed_services(old: MeshModel, new: MeshModel) -> ChangedServices:
    """Compare the services of two models: those that are the same object cost next to nothing."""
    return _COMPARED.get(old, new)


def _changed_services(old: MeshModel, new: MeshModel) -> ChangedServices:
    changed = edits(old.services, new.services)
    return compared(old.by_key, new.by_key, (*changed.gone, *changed.come))


def only_endpoints_differ(
    before: Service | None, after: Service | None, rules: DestinationRules
) -> bool:
    """Return whether a service that changed has other endpoints, and its clusters are as they were.

    rules: of the later model. Clusters that pass connections on depend on what endpoints take.
    """
    return (
        before is not None
        and after is not None
        and before.without_endpoints() == after.without_endpoints()
        and not rules.pass_on(after.host)
    )


class SameNames(NamedTuple):
    """Whether the name tables of two models are the same.

    addresses: tables in which services have addresses of their own. endpoints: tables in which
    services are known by their endpoints' addresses.
    """

    addresses: bool
    endpoints: bool


def same_names(old: MeshModel, new: MeshModel, changed: ChangedServices) -> SameNames:
    """Compare the parts of two models that name tables are built from, given what changed."""
    if old.mesh_config != new.mesh_config or not changed.same_order:
        return SameNames(addresses=False, endpoints=False)
    endpoints = True
    for before, after in changed.pairs.values():
        if before is None or after is None or before.for_names() != after.for_names():
            return SameNames(addresses=False, endpoints=False)
        endpoints = endpoints and before.named_by_endpoints() == after.named_by_endpoints()
    return SameNames(addresses=True, endpoints=endpoints)
