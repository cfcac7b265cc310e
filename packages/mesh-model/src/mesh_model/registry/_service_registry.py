"""The service registry: all services of a mesh, each rebuilt only where an input of it changed.

Unchanged services are the same Python objects as in the previous model, so that two models are
compared at the cost of what differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from istio_config import ConfigObject, ObjectKey, Snapshot
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE, KubernetesServiceSpec
from istio_config.kinds.service_entry import ServiceEntrySpec
from mesh_model._derived import Derived, derive
from mesh_model._object_changes import changed_objects, same_content
from mesh_model._services import Service, ServiceKey
from mesh_model._visibility import HostOwners
from mesh_model.kubernetes._kubernetes_services import ClusterObjects, kubernetes_service
from mesh_model.kubernetes._published_endpoints import Name, name_of
from mesh_model.registry._combined_services import Combined, combine, recombine
from mesh_model.registry._service_entries import services_of_entry
from mesh_model.registry._service_inputs import ServiceInputs, inputs_of
from mesh_model.workloads._service_settings import EndpointKey
from mesh_model.workloads._workload_endpoints import same_pod
from mesh_model.workloads._workloads import labels_of


@dataclass(frozen=True, kw_only=True)
class ServiceRegistry:
    """The services of a mesh, and the objects that describe them."""

    inputs: ServiceInputs
    by_source: Derived[ConfigObject, ObjectKey, tuple[Service, ...]]
    combined: Combined

    @property
    def count(self) -> int:
        """The number of objects whose services were rebuilt, not kept."""
        return sum(each in self.by_source.values for each in self.by_source.touched)

    @property
    def services(self) -> tuple[Service, ...]:
        """The services, oldest first; each host of a namespace once."""
        return self.combined.services

    @property
    def sources(self) -> tuple[ConfigObject, ...]:
        """The ServiceEntries and Kubernetes Services, oldest first."""
        return self.inputs.sources

    def __len__(self) -> int:
        """Return the number of objects that describe services."""
        return len(self.by_source.values)


def build_registry(
    snapshot: Snapshot,
    *,
    domain: str,
    resolved: Mapping[str, tuple[str, ...]] | None = None,
    reports: Mapping[EndpointKey, bool] | None = None,
    owners: HostOwners,
    before: ServiceRegistry | None = None,
) -> ServiceRegistry:
    """Build the services of a snapshot.

    domain: the DNS suffix of Kubernetes services. resolved: addresses of gateways' host
    names. reports: whether the applications of endpoints are healthy, where that is reported.
    owners: the namespace that owns each host; a service with a host that another namespace owns is
    visible in its own namespace alone.
    """
    inputs = inputs_of(
        snapshot,
        domain,
        before.inputs if before is not None else None,
        resolved=resolved,
        reports=reports,
        owners=owners,
    )
    return registry_of(inputs, before)


def registry_of(inputs: ServiceInputs, before: ServiceRegistry | None = None) -> ServiceRegistry:
    """Build the services of a mesh, and keep those of the previous one that did not change."""
    known = before.by_source if before is not None else None
    of_sources = known.values if known is not None else {}
    by_source = derive(
        inputs.sources,
        lambda each: each.key,
        lambda key, items: _same_if_equal(of_sources.get(key), _services(items[-1], inputs)),
        before=known,
        settings=inputs.settings,
        same=same_content,
        also=touched_sources(before.inputs, inputs, of_sources) if before is not None else (),
        in_order=True,
    )
    return ServiceRegistry(
        inputs=inputs, by_source=by_source, combined=_combined(by_source, before)
    )


def _combined(
    by_source: Derived[ConfigObject, ObjectKey, tuple[Service, ...]], before: ServiceRegistry | None
) -> Combined:
    """Merge the services of all objects; it costs the edit where no object came or went."""
    if before is None:
        return combine(by_source.values)
    was, now = before.by_source.values, by_source.values
    found = None
    if by_source.in_place:
        edited = {key: now[key] for key in by_source.touched if now[key] is not was[key]}
        found = recombine(before.combined, was, edited) if edited else before.combined
    return found if found is not None else combine(now, before.combined)


def _same_if_equal(
    before: tuple[Service, ...] | None, now: tuple[Service, ...]
) -> tuple[Service, ...]:
    """Return the previous services wherever the new ones are equal to them."""
    if before is None or len(before) != len(now):
        return now
    if before == now:
        return before
    return tuple(old if old == new else new for old, new in zip(before, now, strict=True))


def _services(item: ConfigObject, inputs: ServiceInputs) -> tuple[Service, ...]:
    cluster, settings = inputs.cluster, inputs.settings
    match item.spec:
        case ServiceEntrySpec() as entry:
            workloads = cluster.entries, cluster.pods_by_label
            return tuple(services_of_entry(item, entry, *workloads, settings, inputs.allocated))
        case KubernetesServiceSpec() as spec:
            return (kubernetes_service(item, spec, cluster, settings),)
        case _:
            return ()


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
    allocated: frozenset[ServiceKey]

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
        allocated = frozenset[ServiceKey]()
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
