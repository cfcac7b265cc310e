"""All services of a mesh, each made anew only if an object that it is made of has changed.

The others are the same Python objects as in the model before, so that comparing two models costs
little where nothing changed.
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
from mesh_model.workloads._service_settings import Place


@dataclass(frozen=True, kw_only=True)
class MadeServices:
    """The services of a mesh, by the objects that they are made of."""

    inputs: ServiceInputs
    made: Derived[ConfigObject, ObjectKey, tuple[Service, ...]]
    combined: Combined

    @property
    def count(self) -> int:
        """Of how many objects services were made, and not taken over."""
        return sum(each in self.made.values for each in self.made.touched)

    @property
    def services(self) -> tuple[Service, ...]:
        """The services, oldest first; each host of a namespace once."""
        return self.combined.services

    @property
    def sources(self) -> tuple[ConfigObject, ...]:
        """The objects that they are made of, oldest first."""
        return self.inputs.sources

    def __len__(self) -> int:
        """Return of how many objects there are services."""
        return len(self.made.values)


def made_of(
    snapshot: Snapshot,
    *,
    domain: str,
    resolved: Mapping[str, tuple[str, ...]] | None = None,
    reports: Mapping[Place, bool] | None = None,
    owners: HostOwners,
    before: MadeServices | None = None,
) -> MadeServices:
    """Make the services of a snapshot.

    domain: the DNS suffix of Kubernetes services. resolved: addresses of names of gateways.
    reports: whether the applications at addresses of namespaces are healthy, where it is known.
    owners: whose hosts are; a service of another's host is seen in its own namespace alone.
    """
    inputs = inputs_of(
        snapshot,
        domain,
        before.inputs if before is not None else None,
        resolved=resolved,
        reports=reports,
        owners=owners,
    )
    return make_services(inputs, before)


def make_services(inputs: ServiceInputs, before: MadeServices | None = None) -> MadeServices:
    """Make the services of a mesh; those of the mesh before are taken over where they can be."""
    known = before.made if before is not None else None
    of_sources = known.values if known is not None else {}
    made = derive(
        inputs.sources,
        lambda each: each.key,
        lambda key, items: _same_if_equal(of_sources.get(key), _services(items[-1], inputs)),
        before=known,
        settings=inputs.settings,
        same=same_content,
        also=touched_sources(before.inputs, inputs, of_sources) if before is not None else (),
        in_order=True,
    )
    return MadeServices(inputs=inputs, made=made, combined=_combined(made, before))


def _combined(
    made: Derived[ConfigObject, ObjectKey, tuple[Service, ...]], before: MadeServices | None
) -> Combined:
    """Combine the services of all objects; it costs the edit if that leaves the objects there."""
    if before is None:
        return combine(made.values)
    was, now = before.made.values, made.values
    found = None
    if made.in_place:
        edited = {key: now[key] for key in made.touched if now[key] is not was[key]}
        found = recombine(before.combined, was, edited) if edited else before.combined
    return found if found is not None else combine(now, before.combined)


def _same_if_equal(
    before: tuple[Service, ...] | None, now: tuple[Service, ...]
) -> tuple[Service, ...]:
    """Return the services made before where the new ones are no different."""
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
