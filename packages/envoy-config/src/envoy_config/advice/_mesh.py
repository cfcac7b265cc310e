"""The objects and the workloads of a mesh, as they are asked for here; each is looked for once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from envoy_config.plan.gateway._account_workloads import known_labels
from envoy_config.plan.gateway._unused import is_translated
from envoy_config.reachability import NO_PODS, Pods
from istio_config import ConfigObject
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_model import MESH, Gateway, Labels, MeshModel, Service, full_host, resolved_gateway

_NO_WORKLOADS: AbstractSet[tuple[str, Labels]] = frozenset()


class Mesh:
    """The facts that advice is found by."""

    def __init__(
        self,
        objects: Iterable[ConfigObject],
        model: MeshModel,
        pods: Pods = NO_PODS,
    ) -> None:
        """pods: labels of workloads by namespace, beside those that the model knows."""
        self._given = objects
        self.model = model
        self.pods = pods
        self._routers: dict[object, list[tuple[str, Labels]]] = {}

    @cached_property
    def objects(self) -> tuple[ConfigObject, ...]:
        """The objects that someone wrote, of each kind the oldest first."""
        return tuple(each for each in self._given if not is_translated(each))

    @cached_property
    def workloads(self) -> Mapping[str, AbstractSet[Labels]]:
        """The labels of the known workloads, by namespace."""
        named = {
            *(each.namespace for each in self.objects),
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

    def services(self, host: str, namespace: str) -> Iterator[Service]:
        """Yield the services that a rule of a namespace means by a host."""
        full = full_host(host, namespace, self.model.domain)
        return (each for each in self._by_host.get(full, ()) if each.visible_in(namespace))

    def routers(self, gateway: Gateway) -> Sequence[tuple[str, Labels]]:
        """Return namespace and labels of the known workloads that a Gateway selects by labels."""
        if gateway.services or not gateway.spec.selector:
            return ()
        # Most Gateways of a mesh have the same few selectors.
        selector = frozenset(gateway.spec.selector.items())
        key = selector, gateway.own_namespace_only and gateway.namespace
        if key not in self._routers:
            having = [self.by_label.get(pair, _NO_WORKLOADS) for pair in selector]
            self._routers[key] = sorted(
                each
                for each in frozenset.intersection(*map(frozenset, having))
                if gateway.selects(*each, ())
            )
        return self._routers[key]

    def gateways(self, item: ConfigObject) -> Iterator[tuple[int, Gateway]]:
        """Yield the Gateways that a VirtualService is bound to, with their places."""
        if not isinstance(item.spec, VirtualServiceSpec):
            return
        for index, given in enumerate(item.spec.gateways):
            name = resolved_gateway(given, item.namespace)
            gateway = self.model.gateways.by_key.get(name) if name != MESH else None
            if gateway is not None:
                yield index, gateway

    @cached_property
    def _by_host(self) -> Mapping[str, list[Service]]:
        found: dict[str, list[Service]] = {}
        for each in self.model.services:
            found.setdefault(each.host, []).append(each)
        return found
