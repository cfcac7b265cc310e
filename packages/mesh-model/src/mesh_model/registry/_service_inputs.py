"""The objects of a snapshot that services are built from, indexed by how they are found."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from istio_config import ConfigObject, ObjectKey, Snapshot
from istio_config.kinds.kubernetes import (
    ENDPOINT_SLICE,
    ENDPOINTS,
    KUBERNETES_SERVICE,
    NAMESPACE,
    NODE,
    POD,
    KubernetesServiceSpec,
)
from istio_config.kinds.mesh_networks import MESH_NETWORKS, MeshNetworksSpec
from istio_config.kinds.service_entry import SERVICE_ENTRY, ServiceEntrySpec
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY
from mesh_model._derived import Derived, derive
from mesh_model._networks import NETWORK_LABEL, networks_of
from mesh_model._services import ServiceKey
from mesh_model._visibility import HostOwners
from mesh_model.kubernetes._kubernetes_services import ClusterObjects
from mesh_model.kubernetes._published_endpoints import ByService, Pods
from mesh_model.registry._auto_addresses import allocated_addresses
from mesh_model.workloads._service_settings import EndpointKey, ServiceSettings, node_localities
from mesh_model.workloads._workload_endpoints import same_pod
from mesh_model.workloads._workloads import Workloads

_Labels = Mapping[str, str]
_OfNamespace = Mapping[tuple[str, str], Sequence[tuple[ObjectKey, _Labels]]]
"""The selectors by one of their labels: a workload that is selected has each of them."""


@dataclass(frozen=True)
class Selectors:
    """The selectors of all sources of services, by namespace."""

    derived: Derived[ConfigObject, str, _OfNamespace] = field(default_factory=Derived)

    @classmethod
    def build(cls, sources: Iterable[ConfigObject], *, before: "Selectors") -> "Selectors":
        """Index the selectors of sources; indices of unchanged namespaces are kept."""
        return cls(derive(sources, _namespace, _sorted, before=before.derived, same=_same_selector))

    def selecting(self, namespace: str, labels: _Labels) -> Iterator[ObjectKey]:
        """Yield the sources that select a workload with these labels; costs what they have."""
        known = self.derived.values.get(namespace, {})
        for label in labels.items():
            for key, selector in known.get(label, ()):
                if selector.items() <= labels.items():
                    yield key


def _namespace(source: ConfigObject) -> str | None:
    return source.namespace if _selector(source) else None


def _same_selector(one: ConfigObject, other: ConfigObject) -> bool:
    return one.key == other.key and _selector(one) == _selector(other)


def _sorted(_namespace: str, sources: Iterable[ConfigObject]) -> _OfNamespace:
    found: dict[tuple[str, str], list[tuple[ObjectKey, _Labels]]] = {}
    for each in sources:
        selector = _selector(each)
        found.setdefault(min(selector.items()), []).append((each.key, selector))
    return found


def _selector(item: ConfigObject) -> _Labels:
    match item.spec:
        case ServiceEntrySpec(workload_selector=selector):
            return selector.labels if selector is not None else {}
        case KubernetesServiceSpec(selector=labels):
            return labels or {}
        case _:
            return {}


_SOURCES = (ServiceEntrySpec, KubernetesServiceSpec)


@dataclass(frozen=True, kw_only=True)
class ServiceInputs:
    """Everything that services are built from."""

    sources: tuple[ConfigObject, ...]
    """The ServiceEntries and Kubernetes services, oldest first."""
    entries: tuple[ConfigObject, ...]
    services: tuple[ConfigObject, ...]
    cluster: ClusterObjects
    allocated: Mapping[ServiceKey, int]
    settings: ServiceSettings
    selectors: Selectors
    settings_of: tuple[object, ...]
    """The inputs of `settings`, except the reports: while they are equal, the settings are kept."""


def inputs_of(
    snapshot: Snapshot,
    domain: str,
    before: ServiceInputs | None,
    *,
    resolved: Mapping[str, tuple[str, ...]] | None = None,
    reports: Mapping[EndpointKey, bool] | None = None,
    owners: HostOwners,
) -> ServiceInputs:
    """Index the objects of a snapshot; indices of unchanged objects are kept.

    resolved: the addresses of the host names of network gateways. reports: the health of
        endpoints' applications.
    """
    old = before.cluster if before is not None else ClusterObjects()
    pods = snapshot.of_kind(POD)
    cluster = ClusterObjects(
        slices=ByService.build(snapshot.of_kind(ENDPOINT_SLICE), before=old.slices),
        endpoints=ByService.build(snapshot.of_kind(ENDPOINTS), before=old.endpoints),
        pods=Pods.build(pods, before=old.pods),
        pods_by_label=Workloads.build(pods, before=old.pods_by_label, same=same_pod),
        entries=Workloads.build(snapshot.of_kind(WORKLOAD_ENTRY), before=old.entries),
    )
    entries = snapshot.of_kind(SERVICE_ENTRY)
    services = snapshot.of_kind(KUBERNETES_SERVICE)
    sources = _sources(snapshot, entries, services, before)
    settings_of = (
        domain,
        resolved,
        snapshot.mesh_config.root_namespace,
        snapshot.mesh_config.default_service_export_to,
        services,
        snapshot.of_kind(MESH_NETWORKS),
        snapshot.of_kind(NAMESPACE),
        snapshot.of_kind(NODE),
        owners,
    )
    if before is not None and before.settings_of == settings_of:
        settings = before.settings
    else:
        settings = _settings(snapshot, domain, resolved, owners)
    return ServiceInputs(
        sources=sources,
        entries=entries,
        services=services,
        cluster=cluster,
        allocated=allocated_addresses(
            entries,
            before=before.allocated if before is not None else None,
            entries_before=before.entries if before is not None else (),
        ),
        settings=replace(settings, reports=reports or {}),
        selectors=Selectors.build(
            sources, before=before.selectors if before is not None else Selectors()
        ),
        settings_of=settings_of,
    )


def _sources(
    snapshot: Snapshot,
    entries: tuple[ConfigObject, ...],
    services: tuple[ConfigObject, ...],
    before: ServiceInputs | None,
) -> tuple[ConfigObject, ...]:
    """Return the objects of both kinds, oldest first."""
    if before is not None and entries is before.entries and services is before.services:
        return before.sources
    if not entries or not services:
        return entries or services
    return tuple(each for each in snapshot.objects if isinstance(each.spec, _SOURCES))


def _settings(
    snapshot: Snapshot,
    domain: str,
    resolved: Mapping[str, tuple[str, ...]] | None,
    owners: HostOwners,
) -> ServiceSettings:
    root = snapshot.mesh_config.root_namespace
    return ServiceSettings(
        export_to=snapshot.mesh_config.default_service_export_to,
        domain=domain,
        networks=networks_of(
            next(
                (
                    each.spec
                    for each in snapshot.of_kind(MESH_NETWORKS)
                    if isinstance(each.spec, MeshNetworksSpec)
                ),
                None,
            ),
            snapshot.of_kind(KUBERNETES_SERVICE),
            domain=domain,
            resolved=resolved,
            labelled_in=root if owners.is_strict else None,
        ),
        cluster_networks={
            each.origin.cluster: dict(each.labels).get(NETWORK_LABEL, "")
            for each in snapshot.of_kind(NAMESPACE)
            if each.name == root
        },
        localities=node_localities(snapshot.of_kind(NODE)),
        owners=owners,
        reports={},
    )
