"""All services of a mesh, each made anew only if an object that it is made of has changed.

The others are the same Python objects as in the model before, so that comparing two models costs
little where nothing changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mesh_discovery._edits import replacements
from mesh_discovery.config._objects import ConfigObject, ObjectKey
from mesh_discovery.config._snapshot import Snapshot
from mesh_discovery.config.kinds._service_entry import ServiceEntrySpec
from mesh_discovery.config.kinds.kubernetes._service import KubernetesServiceSpec
from mesh_discovery.model._services import Service
from mesh_discovery.model.kubernetes._kubernetes_services import kubernetes_service
from mesh_discovery.model.namespaces._host_owners import HostOwners
from mesh_discovery.model.registry._combined_services import Combined, combine, recombine
from mesh_discovery.model.registry._service_entries import services_of_entry
from mesh_discovery.model.registry._service_inputs import ServiceInputs, inputs_of
from mesh_discovery.model.registry._touched_sources import touched_sources
from mesh_discovery.model.workloads._service_settings import Place


@dataclass(frozen=True, kw_only=True)
class MadeServices:
    """The services of a mesh, and by which objects they are there."""

    inputs: ServiceInputs
    by_source: Mapping[ObjectKey, tuple[Service, ...]]
    combined: Combined
    count: int
    """Of how many objects services were made, and not taken over."""

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
        return len(self.by_source)


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
    touched = (
        touched_sources(before.inputs, inputs, before.by_source) if before is not None else None
    )
    if before is not None and touched is not None and _same_keys(before, inputs, touched):
        return _edited(inputs, before, touched)
    known = before.by_source if before is not None else {}
    found: dict[ObjectKey, tuple[Service, ...]] = {}
    count = 0
    for each in inputs.sources:
        kept = known.get(each.key)
        if kept is None or touched is None or each.key in touched:
            kept = _same_if_equal(kept, _services(each, inputs))
            count += 1
        found[each.key] = kept
    return MadeServices(
        inputs=inputs,
        by_source=found,
        combined=combine(found, before.combined if before is not None else None),
        count=count,
    )


def _edited(
    inputs: ServiceInputs, before: MadeServices, touched: Mapping[ObjectKey, ConfigObject]
) -> MadeServices:
    """Return the services after edits that leave all sources, and their order."""
    found = dict(before.by_source)
    edited: dict[ObjectKey, tuple[Service, ...]] = {}
    for key, item in touched.items():
        edited[key] = found[key] = _same_if_equal(found[key], _services(item, inputs))
    changed = {key: found[key] for key in edited if found[key] is not before.by_source[key]}
    combined = recombine(before.combined, before.by_source, changed) if changed else before.combined
    if combined is None:
        combined = combine(found, before.combined)
    return MadeServices(inputs=inputs, by_source=found, combined=combined, count=len(edited))


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


def _same_keys(
    before: MadeServices, inputs: ServiceInputs, touched: Mapping[ObjectKey, ConfigObject]
) -> bool:
    """Tell whether the sources are those before, in the same order, but for edits."""
    old, new = before.inputs.sources, inputs.sources
    if old is new:
        return True
    changed = replacements(old, new)
    return (
        changed is not None
        and all(one.key == other.key for one, other in changed)
        and touched.keys() <= before.by_source.keys()
    )
