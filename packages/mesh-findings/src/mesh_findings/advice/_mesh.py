"""The objects and the workloads of a mesh, as they are asked for here; each is looked for once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from envoy_config.plans import known_labels
from istio_config import ConfigObject
from istio_config.kinds.kind import Kind, SpecT
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_findings.reachability._labels import NO_PODS, Pods
from mesh_findings.unused._gateways import is_translated
from mesh_model import MESH, Gateway, Labels, MeshModel, Service, full_host, resolved_gateway

_NO_WORKLOADS: AbstractSet[tuple[str, Labels]] = frozenset()


def written(
    items: Iterable[ConfigObject], kind: Kind[SpecT]
) -> Iterator[tuple[ConfigObject, SpecT]]:
    """Yield those of some objects of a kind that someone wrote, with their specs."""
    for each in items:
        if isinstance(each.spec, kind.spec) and not is_translated(each):
            yield each, each.spec


class Mesh:
    """The facts that advice is found by."""

    def __init__(
        self,
        objects: Mapping[AnyKind, tuple[ConfigObject, ...]],
        model: MeshModel,
        pods: Pods = NO_PODS,
    ) -> None:
        """objects: those of each kind. pods: labels of workloads, beside those the model knows."""
        self.objects = objects
        self.model = model
        self.pods = pods
        self._routers: dict[object, list[tuple[str, Labels]]] = {}

    def of_kind(self, kind: Kind[SpecT]) -> Iterator[tuple[ConfigObject, SpecT]]:
        """Return the objects of a kind that someone wrote, the oldest first, with their specs."""
        return written(self.objects.get(kind, ()), kind)

    @cached_property
    def workloads(self) -> Mapping[str, AbstractSet[Labels]]:
        """The labels of the known workloads, by namespace."""
        named = {
            *(each.namespace for of_kind in self.objects.values() for each in of_kind),
            *(endpoint.namespace for each in self.model.services for endpoint in each.endpoints),
            *self.pods,
        }
        known = known_labels(self.model, named)
        return {each: {*known.get(each, ()), *self.pods.get(each, ())} for each in named}

    @cached_property
    def by_label(self) -> Mapping[tuple[str, str], AbstractSet[tuple[str, Labels]]]:
        """Namespace and labels of the known workloads, by each of their labels."""
        found: dict[tuple[str, str], set[tuple[str, Labels]]] = {}
        for namespace, known in self.workloads.items():
            for labels in known:
                for pair in labels:
                    found.setdefault(pair, set()).add((namespace, labels))
        return found

    def having(self, key: str, value: str) -> AbstractSet[tuple[str, Labels]]:
        """Return namespace and labels of the known workloads that have a label."""
        return self.by_label.get((key, value), _NO_WORKLOADS)

    def services(self, host: str, namespace: str) -> Iterator[Service]:
        """Yield the services that a rule of a namespace means by a host."""
        full = full_host(host, namespace, self.model.domain)
        keys = self.model.indices.services.find("*", full)
        found = (self.model.by_key[each] for each in keys)
        return (each for each in found if each.host == full and each.visible_in(namespace))

    def routers(self, gateway: Gateway) -> Sequence[tuple[str, Labels]]:
        """Return namespace and labels of the known workloads that a Gateway selects by labels."""
        if gateway.services or not gateway.spec.selector:
            return ()
        # Most Gateways of a mesh have the same few selectors.
        selector = frozenset(gateway.spec.selector.items())
        key = selector, gateway.own_namespace_only and gateway.namespace
        if key not in self._routers:
            having = [self.having(*pair) for pair in selector]
            self._routers[key] = sorted(
                each
                for each in frozenset.intersection(*map(frozenset, having))
                if gateway.selects(*each, ())
            )
        return self._routers[key]

    def gateways(self, spec: VirtualServiceSpec, namespace: str) -> Iterator[Gateway]:
        """Yield the Gateways that a VirtualService of a namespace is bound to."""
        for given in spec.gateways:
            name = resolved_gateway(given, namespace)
            gateway = self.model.gateways.by_key.get(name) if name != MESH else None
            if gateway is not None:
                yield gateway
