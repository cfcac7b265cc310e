"""The objects of a cluster that endpoints of its services come from, found by service and pod."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.kubernetes._endpoint_slice import (
    SERVICE_NAME_LABEL,
    EndpointSliceFields,
    TargetReference,
)
from mesh_discovery.config.kinds.kubernetes._endpoints import EndpointsFields
from mesh_discovery.model.workloads._object_changes import changed_objects
from mesh_discovery.model.workloads._workload_endpoints import same_pod

Name = tuple[str, str, str]
"""Namespace and name, and the cluster."""
_ServicesOfPods = Mapping[str, Mapping[tuple[str, str], frozenset[Name]]]
"""By the namespaces of the pods, then by their names and clusters."""


@dataclass(frozen=True)
class ByService:
    """EndpointSlices or Endpoints by the service that they belong to."""

    objects: tuple[ConfigObject, ...] = ()
    by_service: Mapping[Name, tuple[ConfigObject, ...]] = field(default_factory=dict, repr=False)
    by_pod: _ServicesOfPods = field(default_factory=dict, repr=False)
    """The services with an endpoint that says to be a pod."""

    @classmethod
    def of(cls, objects: tuple[ConfigObject, ...], *, before: "ByService") -> "ByService":
        """Sort objects by service; those of services without a change are taken over."""
        gone, come = changed_objects(before.objects, objects)
        if not gone and not come:
            return before if objects is before.objects else replace(before, objects=objects)
        if len(come) > len(before.objects):
            found = _by_service(objects)
            return cls(objects, found, _by_pod({}, {}, found))
        found = dict(before.by_service)
        edited = {each.key for each in (*gone, *come)}
        services = {service_of(each) for each in (*gone, *come)}
        for service in services:
            kept = [each for each in found.pop(service, ()) if each.key not in edited]
            kept += [each for each in come if service_of(each) == service]
            if kept:
                found[service] = tuple(sorted(kept, key=lambda each: each.name))
        was = {each: before.get(each) for each in services}
        now = {each: found.get(each, ()) for each in services}
        return cls(objects, found, _by_pod(before.by_pod, was, now))

    def get(self, service: Name) -> tuple[ConfigObject, ...]:
        """Return the objects of a service."""
        return self.by_service.get(service, ())

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


def _by_service(objects: Iterable[ConfigObject]) -> dict[Name, tuple[ConfigObject, ...]]:
    found: dict[Name, list[ConfigObject]] = {}
    for each in objects:
        found.setdefault(service_of(each), []).append(each)
    return {name: tuple(sorted(items, key=lambda each: each.name)) for name, items in found.items()}


_OfServices = Mapping[Name, Sequence[ConfigObject]]


def _by_pod(before: _ServicesOfPods, was: _OfServices, now: _OfServices) -> _ServicesOfPods:
    """Return the services of each pod after those of some services are others.

    It costs what the namespaces of these pods have.
    """
    found = dict(before)
    copied: dict[str, dict[tuple[str, str], frozenset[Name]]] = {}
    for service in was.keys() | now.keys():
        gone, come = set(targets(was.get(service, ()))), set(targets(now.get(service, ())))
        for namespace, name, cluster in gone ^ come:
            if namespace not in copied:
                copied[namespace] = dict(before.get(namespace, {}))
            pod = name, cluster
            services = copied[namespace].pop(pod, frozenset()) ^ {service}
            if services:
                copied[namespace][pod] = services
    return found | copied


@dataclass(frozen=True)
class Pods:
    """Pods by their names."""

    objects: tuple[ConfigObject, ...] = ()
    by_name: Mapping[Name, ConfigObject] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, objects: tuple[ConfigObject, ...], *, before: "Pods") -> "Pods":
        """Sort pods by name."""
        gone, come = changed_objects(before.objects, objects, same_pod)
        if not gone and not come:
            return before.read_again(objects)
        found = dict(before.by_name)
        for each in gone:
            del found[name_of(each)]
        found |= {name_of(each): each for each in come}
        return cls(objects, found)

    def read_again(self, objects: tuple[ConfigObject, ...]) -> "Pods":
        """Return these pods, of objects that say the same."""
        return self if objects is self.objects else Pods(objects, self.by_name)

    def target(self, reference: TargetReference | None, of: ConfigObject) -> ConfigObject | None:
        """Return the pod that an endpoint in a slice, or in Endpoints, says to be."""
        if reference is None or reference.kind != "Pod":
            return None
        return self.by_name.get(_named(reference, of))


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
