"""The objects of a cluster that endpoints of its services come from, found by service and pod."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import (
    SERVICE_NAME_LABEL,
    EndpointsFields,
    EndpointSliceFields,
    TargetReference,
)
from mesh_model._derived import Derived, grouped
from mesh_model.workloads._object_changes import same_content
from mesh_model.workloads._workload_endpoints import same_pod

Name = tuple[str, str, str]
"""Namespace and name, and the cluster."""
_ServicesOfPods = Mapping[str, Mapping[tuple[str, str], frozenset[Name]]]
"""By the namespaces of the pods, then by their names and clusters."""
_Grouped = Derived[ConfigObject, Name, tuple[ConfigObject, ...]]


@dataclass(frozen=True)
class ByService:
    """EndpointSlices or Endpoints by the service that they belong to."""

    made: _Grouped = field(default_factory=Derived)
    by_pod: _ServicesOfPods = field(default_factory=dict, repr=False)
    """The services with an endpoint that says to be a pod."""

    @classmethod
    def of(cls, objects: Iterable[ConfigObject], *, before: "ByService") -> "ByService":
        """Sort objects by service; those of services without a change are taken over."""
        made = grouped(objects, service_of, before=before.made, same=same_content)
        return cls(made, _by_pod(before.by_pod, before.made, made))

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.made.objects

    def get(self, service: Name) -> tuple[ConfigObject, ...]:
        """Return the objects of a service, by name."""
        return tuple(sorted(self.made.values.get(service, ()), key=lambda each: each.name))

    def of_pod(self, pod: Name) -> frozenset[Name]:
        """Return the services of which an endpoint says to be a pod."""
        return self.by_pod.get(pod[0], {}).get(pod[1:], frozenset())


def name_of(item: ConfigObject) -> Name:
    """Return the name by which others mean an object."""
    return item.namespace, item.name, item.origin.cluster


def service_of(item: ConfigObject) -> Name:
    """Return the service that a slice names, or that Endpoints have the name of."""
    if not isinstance(item.spec, EndpointSliceFields):
        return name_of(item)
    name = next((value for key, value in item.labels if key == SERVICE_NAME_LABEL), "")
    return item.namespace, name, item.origin.cluster


def _by_pod(before: _ServicesOfPods, was: _Grouped, now: _Grouped) -> _ServicesOfPods:
    """Return the services of each pod after those of some services are others.

    It costs what the namespaces of these pods have.
    """
    copied: dict[str, dict[tuple[str, str], frozenset[Name]]] = {}
    for service in now.touched:
        gone, come = (set(targets(each.values.get(service, ()))) for each in (was, now))
        for namespace, name, cluster in gone ^ come:
            if namespace not in copied:
                copied[namespace] = dict(before.get(namespace, {}))
            pod = name, cluster
            services = copied[namespace].pop(pod, frozenset()) ^ {service}
            if services:
                copied[namespace][pod] = services
    return {**before, **copied} if copied else before


@dataclass(frozen=True)
class Pods:
    """Pods by their names."""

    made: _Grouped = field(default_factory=Derived)

    @classmethod
    def of(cls, objects: Iterable[ConfigObject], *, before: "Pods") -> "Pods":
        """Sort pods by name."""
        return cls(grouped(objects, name_of, before=before.made, same=same_pod))

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.made.objects

    def target(self, reference: TargetReference | None, of: ConfigObject) -> ConfigObject | None:
        """Return the pod that an endpoint in a slice, or in Endpoints, says to be."""
        if reference is None or reference.kind != "Pod":
            return None
        pods = self.made.values.get(_named(reference, of))
        return pods[-1] if pods else None


def targets(items: Sequence[ConfigObject]) -> Iterator[Name]:
    """Yield the names of the pods that the endpoints in slices or Endpoints say to be."""
    for item in items:
        match item.spec:
            case EndpointSliceFields(endpoints=endpoints):
                references = [each.target_ref for each in endpoints or ()]
            case EndpointsFields(subsets=subsets):
                references = [
                    address.target_ref
                    for subset in subsets or ()
                    for address in (*(subset.addresses or ()), *(subset.not_ready_addresses or ()))
                ]
            case _:
                references = []
        for each in references:
            if each is not None and each.kind == "Pod":
                yield _named(each, item)


def _named(reference: TargetReference, of: ConfigObject) -> Name:
    return reference.namespace or of.namespace, reference.name, of.origin.cluster
