"""The numbers that Istio's control plane tells of a mesh in its metrics."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from istio_config import Snapshot
from istio_config.kinds.destination_rule import DESTINATION_RULE, DestinationRuleSpec
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, VirtualServiceSpec
from mesh_model import Health, MeshModel


class MeshFigures(NamedTuple):
    """Numbers of a mesh as it is served.

    virtual_services: VirtualServices. repeated_hosts: hosts that several VirtualServices of
    sidecars name. repeated_subsets: names that several DestinationRules of a host give to subsets.
    without_endpoints: ports of services that have no endpoint, where the services list them.
    looked_up_without_endpoints: the same of services whose endpoints DNS gives.
    not_ready: endpoints that are not healthy.
    """

    virtual_services: int
    repeated_hosts: int
    repeated_subsets: int
    without_endpoints: int
    looked_up_without_endpoints: int
    not_ready: int


def mesh_figures(snapshot: Snapshot, model: MeshModel) -> MeshFigures:
    """Count them; takes time in proportion to the mesh."""
    virtual_services = [
        each.spec
        for each in snapshot.of_kind(VIRTUAL_SERVICE)
        if isinstance(each.spec, VirtualServiceSpec)
    ]
    hosts = Counter(
        host.lower()
        for spec in virtual_services
        if not spec.gateways or "mesh" in spec.gateways
        for host in spec.hosts
    )
    subsets = Counter(
        (item.namespace, spec.host, subset)
        for item in snapshot.of_kind(DESTINATION_RULE)
        if isinstance(spec := item.spec, DestinationRuleSpec)
        for subset in {each.name for each in spec.subsets}
    )
    services = model.services
    return MeshFigures(
        virtual_services=len(virtual_services),
        repeated_hosts=_repeated(hosts),
        repeated_subsets=_repeated(subsets),
        without_endpoints=sum(
            not any(endpoint.serves(port) for endpoint in service.endpoints)
            for service in services
            if service.uses_eds
            for port in service.ports
        ),
        looked_up_without_endpoints=sum(
            len(service.ports)
            for service in services
            if service.is_looked_up and not service.endpoints
        ),
        not_ready=sum(
            endpoint.health is not Health.HEALTHY
            for service in services
            for endpoint in service.endpoints
        ),
    )


class KeptFigures:
    """The figures of what is served, counted again when it is another."""

    def __init__(self, served: Callable[[], tuple[Snapshot, MeshModel]]) -> None:
        """served: returns what is served now."""
        self._served = served
        self._counted: tuple[MeshModel, MeshFigures] | None = None

    def now(self) -> MeshFigures:
        """Return the figures of what is served now."""
        snapshot, model = self._served()
        if self._counted is None or self._counted[0] is not model:
            self._counted = model, mesh_figures(snapshot, model)
        return self._counted[1]


def _repeated(counts: "Counter[str] | Counter[tuple[str, str, str]]") -> int:
    return sum(count > 1 for count in counts.values())
