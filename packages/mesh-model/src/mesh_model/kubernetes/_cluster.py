"""Indices of the objects that Kubernetes endpoints come from, by service and by pod."""

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

    derived: _Grouped = field(default_factory=Derived)
    by_pod: _ServicesOfPods = field(default_factory=dict, repr=False)
    """The services by the pods that their endpoints refer to (`targetRef`)."""

    @classmethod
    def build(cls, objects: Iterable[ConfigObject], *, before: "ByService") -> "ByService":
        """Index objects by service; indices of unchanged services are kept."""
        derived = grouped(objects, service_of, before=before.derived, same=same_content)
        return cls(derived, _by_pod(before.by_pod, before.derived, derived))

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.derived.objects

    def get(self, service: Name) -> tuple[ConfigObject, ...]:
        """Return the objects of a service, by name."""
        return tuple(sorted(self.derived.values.get(service, ()), key=lambda each: each.name))

    def of_pod(self, pod: Name) -> frozenset[Name]:
        """Return the services that have an endpoint whose `targetRef` is this pod."""
        return self.by_pod.get(pod[0], {}).get(pod[1:], frozenset())


def name_of(item: ConfigObject) -> Name:
    """Return the name by which objects of the same cluster refer to this one."""
    return item.namespace, item.name, item.origin.cluster


def service_of(item: ConfigObject) -> Name:
    """Return the service that a slice names, or that Endpoints have the name of."""
    if not isinstance(item.spec, EndpointSliceFields):
        return name_of(item)
    name = next((value for key, value in item.labels if key == SERVICE_NAME_LABEL), "")
    return item.namespace, name, item.origin.cluster


def _by_pod(before: _ServicesOfPods, was: _Grouped, now: _Grouped) -> _ServicesOfPods:
    """Return the services of each pod after an edit of slices or Endpoints.

    It costs a copy of the index of each namespace whose pods are concerned.
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

    derived: _Grouped = field(default_factory=Derived)

    @classmethod
    def build(cls, objects: Iterable[ConfigObject], *, before: "Pods") -> "Pods":
        """Sort pods by name."""
        return cls(grouped(objects, name_of, before=before.derived, same=same_pod))

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.derived.objects

    def target(self, reference: TargetReference | None, of: ConfigObject) -> ConfigObject | None:
        """Return the pod that an endpoint refers to; of: the object that the endpoint is in."""
        if reference is None or reference.kind != "Pod":
            return None
        pods = self.derived.values.get(_named(reference, of))
        return pods[-1] if pods else None


def targets(items: Sequence[ConfigObject]) -> Iterator[Name]:
    """Yield the names of the pods that endpoints in slices or Endpoints refer to."""
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
