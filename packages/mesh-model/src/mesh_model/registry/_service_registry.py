"""The service registry: all services of a mesh, each rebuilt only where an input of it changed.

Unchanged services are the same Python objects as in the previous model, so that two models are
compared at the cost of what differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from istio_config import ConfigObject, ObjectKey, Snapshot
from istio_config.kinds.kubernetes import KubernetesServiceSpec
from istio_config.kinds.service_entry import ServiceEntrySpec
from mesh_model._derived import Derived, derive
from mesh_model._services import Service
from mesh_model.kubernetes._kubernetes_services import kubernetes_service
from mesh_model.namespaces._host_owners import HostOwners
from mesh_model.registry._combined_services import Combined, combine, recombine
from mesh_model.registry._service_entries import services_of_entry
from mesh_model.registry._service_inputs import ServiceInputs, inputs_of
from mesh_model.registry._touched_sources import touched_sources
from mesh_model.workloads._object_changes import same_content
from mesh_model.workloads._service_settings import EndpointKey


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
