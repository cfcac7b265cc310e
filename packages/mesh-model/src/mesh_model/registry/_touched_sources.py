"""Finds which ServiceEntries and Kubernetes services a change of a configuration may concern."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from istio_config import ConfigObject, ObjectKey
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE
from istio_config.kinds.service_entry import ServiceEntrySpec
from mesh_model._auto_addresses import Key
from mesh_model._services import Service
from mesh_model.kubernetes._cluster import Name, name_of
from mesh_model.kubernetes._kubernetes_services import ClusterObjects
from mesh_model.registry._service_inputs import ServiceInputs
from mesh_model.workloads._object_changes import changed_objects
from mesh_model.workloads._service_settings import EndpointKey
from mesh_model.workloads._workload_endpoints import same_pod
from mesh_model.workloads._workloads import labels_of


def touched_sources(
    old: ServiceInputs,
    new: ServiceInputs,
    services: Mapping[ObjectKey, tuple[Service, ...]],
) -> set[ObjectKey]:
    """Return the sources whose services may be different now by other objects than these.

    new: derived from `old`. services: those of each source before.
    """
    keys = _of_slices(new.cluster)
    keys |= _with_addresses(_changed_reports(old, new), services)
    return keys | _Wanted.between(old, new).keys(new)


def _changed_reports(old: ServiceInputs, new: ServiceInputs) -> set[EndpointKey]:
    before, after = old.settings.reports, new.settings.reports
    return {
        each for each in before.keys() | after.keys() if before.get(each) is not after.get(each)
    }


def _with_addresses(
    keys: set[EndpointKey], built: Mapping[ObjectKey, tuple[Service, ...]]
) -> set[ObjectKey]:
    """Return the sources of services with an endpoint at one of these places."""
    if not keys:
        return set()
    return {
        key
        for key, services in built.items()
        if any(
            (each.namespace, each.service_account, each.address) in keys
            for service in services
            for each in service.endpoints
        )
    }


_SERVICE = f"{KUBERNETES_SERVICE.name}.{KUBERNETES_SERVICE.group}"


def _of_slices(cluster: ClusterObjects) -> set[ObjectKey]:
    """Return the keys of the services whose slices or Endpoints changed."""
    published = cluster.slices.derived.touched | cluster.endpoints.derived.touched
    return {(_SERVICE, *each) for each in published}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The changes of things that sources look for: workloads by labels, and addresses."""

    workloads: Mapping[str, Sequence[Mapping[str, str]]]
    """The labels of the workloads that came, went or changed, by namespace."""
    pods: frozenset[Name]
    allocated: frozenset[Key]

    @classmethod
    def between(cls, old: ServiceInputs, new: ServiceInputs) -> "_Wanted":
        found: dict[str, list[Mapping[str, str]]] = {}
        pods: set[Name] = set()
        for objects in changed_objects(old.cluster.entries.objects, new.cluster.entries.objects):
            for each in objects:
                found.setdefault(each.namespace, []).append(labels_of(each))
        for objects in changed_objects(
            old.cluster.pods.objects, new.cluster.pods.objects, same_pod
        ):
            for each in objects:
                found.setdefault(each.namespace, []).append(labels_of(each))
                pods.add(name_of(each))
        allocated = frozenset[Key]()
        if old.allocated is not new.allocated:
            allocated = frozenset(
                key
                for key in old.allocated.keys() | new.allocated.keys()
                if old.allocated.get(key) != new.allocated.get(key)
            )
        return cls(workloads=found, pods=frozenset(pods), allocated=allocated)

    def keys(self, inputs: ServiceInputs) -> set[ObjectKey]:
        """Return the sources that look for them; costs what these are, but for allocations."""
        found = {
            key
            for namespace, workloads in self.workloads.items()
            for labels in workloads
            for key in inputs.selectors.selecting(namespace, labels)
        }
        for published in (inputs.cluster.slices, inputs.cluster.endpoints):
            for pod in self.pods:
                found.update((_SERVICE, *service) for service in published.of_pod(pod))
        if self.allocated:
            found.update(each.key for each in inputs.entries if self._is_allocated(each))
        return found

    def _is_allocated(self, item: ConfigObject) -> bool:
        return isinstance(item.spec, ServiceEntrySpec) and any(
            (item.namespace, host.lower()) in self.allocated for host in item.spec.hosts
        )
