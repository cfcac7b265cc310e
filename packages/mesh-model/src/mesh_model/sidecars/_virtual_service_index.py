"""The VirtualServices of a mesh's sidecars by namespace and host."""

from collections.abc import Iterable, Iterator

from istio_config.kinds.sidecar import ANY
from mesh_model.hosts._host_ranges import HostRanges
from mesh_model.virtual_services._resolved_names import MESH
from mesh_model.virtual_services._virtual_services import VirtualService, VirtualServices


class VirtualServiceIndex:
    """Finds the VirtualServices that have a host in common with a pattern."""

    def __init__(self, virtual_services: VirtualServices) -> None:
        self.virtual_services = virtual_services
        by_namespace: dict[str, list[tuple[str, VirtualService]]] = {ANY: []}
        self._order: dict[VirtualService, int] = {}
        for each in virtual_services.all:
            if MESH not in each.gateways:
                continue
            self._order[each] = len(self._order)
            hosts = [(host, each) for host in each.hosts]
            by_namespace.setdefault(each.namespace, []).extend(hosts)
            by_namespace[ANY].extend(hosts)
        self._by_namespace = {
            namespace: HostRanges(hosts) for namespace, hosts in by_namespace.items()
        }

    def find(self, namespace: str, pattern: str) -> Iterator[VirtualService]:
        """Yield those of a namespace, or of any (`*`)."""
        hosts = self._by_namespace.get(namespace)
        if hosts is not None:
            yield from hosts.overlapping(pattern)

    def in_order(
        self, found: Iterable[VirtualService], namespace: str
    ) -> tuple[VirtualService, ...]:
        """Return those that a namespace's proxies see, in the order in which they win."""
        seen = {each for each in found if each.mesh_export_to & {namespace, ANY}}
        return tuple(sorted(seen, key=lambda each: (_layer(each, namespace), self._order[each])))


def _layer(virtual_service: VirtualService, namespace: str) -> int:
    """Return the place of its layer: private ones, those exported by name, public ones."""
    if ANY in virtual_service.mesh_export_to:
        return 2
    return 0 if virtual_service.namespace == namespace else 1
