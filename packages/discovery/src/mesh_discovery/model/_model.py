"""The model of a mesh, made of a snapshot of configuration: services, policies, settings.

Pure and immutable: equal snapshots give equal models, and two models are compared to find out
which resources a change touches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mesh_discovery.config._loader import Snapshot
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds._mesh_config import MeshConfigSpec
from mesh_discovery.config.kinds._peer_authentication import PeerAuthenticationSpec
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._service_entry import Location, Resolution, ServiceEntrySpec
from mesh_discovery.config.kinds._workload_entry import WorkloadEntrySpec
from mesh_discovery.model._auto_addresses import (
    NO_AUTO_ADDRESS_LABEL,
    Key,
    allocate,
    auto_addresses,
)
from mesh_discovery.model._peer_authentication import PeerPolicies, Policy
from mesh_discovery.model._services import Endpoint, Labels, Port, Service


@dataclass(frozen=True, kw_only=True)
class MeshModel:
    """A whole mesh, as generators need it."""

    mesh_config: MeshConfigSpec
    trust_domain: str
    services: tuple[Service, ...]
    """Oldest first; each host of a namespace once."""
    policies: PeerPolicies
    auto_allocated: Mapping[Key, int] = field(default_factory=dict)
    """The place of each service in the range of auto-allocated addresses."""

    @cached_property
    def by_key(self) -> dict[tuple[str, str], Service]:
        """Services by namespace and host."""
        return {(service.namespace, service.host): service for service in self.services}

    @cached_property
    def by_address(self) -> dict[tuple[str, str], tuple[tuple[Service, Endpoint], ...]]:
        """The services and their endpoints by namespace and address of the endpoint."""
        found: dict[tuple[str, str], list[tuple[Service, Endpoint]]] = {}
        for service in self.services:
            for endpoint in service.endpoints:
                found.setdefault((endpoint.namespace, endpoint.address), []).append(
                    (service, endpoint)
                )
        return {key: tuple(items) for key, items in found.items()}

    @property
    def trust_domains(self) -> tuple[str, ...]:
        """The mesh's own trust domain, then its aliases."""
        return (self.trust_domain, *self.mesh_config.trust_domain_aliases)


def build_model(
    snapshot: Snapshot,
    *,
    default_trust_domain: str = "cluster.local",
    before: MeshModel | None = None,
) -> MeshModel:
    """Derive the mesh from a snapshot; mesh config's trustDomain wins over the default.

    before: the model that this one replaces; services keep the addresses allocated for them there.
    """
    workloads = [
        (each, each.spec) for each in snapshot.objects if isinstance(each.spec, WorkloadEntrySpec)
    ]
    entries = [
        (each, each.spec) for each in snapshot.objects if isinstance(each.spec, ServiceEntrySpec)
    ]
    allocated = _allocated(entries, before)
    services: dict[Key, Service] = {}
    for each, spec in entries:
        for service in _services(each, spec, workloads, snapshot.mesh_config, allocated):
            services.setdefault((service.namespace, service.host), service)
    return MeshModel(
        mesh_config=snapshot.mesh_config,
        trust_domain=snapshot.mesh_config.trust_domain or default_trust_domain,
        services=tuple(services.values()),
        auto_allocated=allocated,
        policies=PeerPolicies(
            root_namespace=snapshot.mesh_config.root_namespace,
            policies=tuple(
                Policy(namespace=each.namespace, name=each.name, spec=each.spec)
                for each in snapshot.objects
                if isinstance(each.spec, PeerAuthenticationSpec)
            ),
        ),
    )


class SameNames(NamedTuple):
    """Whether the name tables of two models are the same.

    addresses: tables in which services have addresses of their own. endpoints: tables in which
    services are known by their endpoints' addresses.
    """

    addresses: bool
    endpoints: bool


def same_names(old: MeshModel, new: MeshModel) -> SameNames:
    """Compare the parts of two models that name tables are made of."""
    if old.mesh_config != new.mesh_config or list(old.by_key) != list(new.by_key):
        return SameNames(addresses=False, endpoints=False)
    endpoints = True
    for key, service in new.by_key.items():
        before = old.by_key[key]
        if before == service:
            continue
        if before.for_names() != service.for_names():
            return SameNames(addresses=False, endpoints=False)
        endpoints = endpoints and before.named_by_endpoints() == service.named_by_endpoints()
    return SameNames(addresses=True, endpoints=endpoints)


def _allocated(
    entries: Iterable[tuple[ConfigObject, ServiceEntrySpec]], before: MeshModel | None
) -> Mapping[Key, int]:
    """Allocate places for the services that are to have an address and were given none."""
    wanted: dict[Key, bool] = {}
    given: list[str] = []
    for item, spec in entries:
        given += spec.addresses
        for host in spec.hosts:
            key = item.namespace, host.lower()
            wanted.setdefault(key, _wants_address(item, spec, host))
    return allocate(
        [key for key, wants in wanted.items() if wants],
        given=given,
        before=before.auto_allocated if before is not None else None,
    )


def _wants_address(item: ConfigObject, spec: ServiceEntrySpec, host: str) -> bool:
    return (
        not spec.addresses
        and spec.resolution is not Resolution.NONE
        and not host.startswith("*")
        and (NO_AUTO_ADDRESS_LABEL, "false") not in item.labels
    )


def _services(
    item: ConfigObject,
    spec: ServiceEntrySpec,
    workloads: Iterable[tuple[ConfigObject, WorkloadEntrySpec]],
    mesh_config: MeshConfigSpec,
    allocated: Mapping[Key, int],
) -> Iterable[Service]:
    ports = tuple(
        Port(
            number=port.number,
            name=port.name,
            protocol=Protocol.of_port(port.protocol, port.name),
            target=port.target_port or port.number,
        )
        for port in spec.ports
    )
    endpoints = _endpoints(item, spec, workloads)
    for host in dict.fromkeys(each.lower() for each in spec.hosts):
        place = allocated.get((item.namespace, host)) if not spec.addresses else None
        yield Service(
            host=host,
            namespace=item.namespace,
            name=item.name,
            ports=ports,
            endpoints=endpoints or _named_by_host(host, item, spec),
            addresses=spec.addresses,
            auto_addresses=auto_addresses(place) if place is not None else (),
            resolution=spec.resolution,
            external=spec.location is Location.MESH_EXTERNAL,
            export_to=spec.export_to or mesh_config.default_service_export_to,
            subject_alt_names=spec.subject_alt_names,
        )


def _named_by_host(host: str, item: ConfigObject, spec: ServiceEntrySpec) -> tuple[Endpoint, ...]:
    """Make the host itself the endpoint of a service that is looked up by DNS."""
    by_dns = spec.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)
    if not by_dns or spec.workload_selector is not None or host.startswith("*."):
        return ()
    return (Endpoint(address=host, ports=(), namespace=item.namespace),)


def _endpoints(
    item: ConfigObject,
    spec: ServiceEntrySpec,
    workloads: Iterable[tuple[ConfigObject, WorkloadEntrySpec]],
) -> tuple[Endpoint, ...]:
    if spec.workload_selector is None:
        return tuple(_endpoint(each, item.namespace, workload=item.name) for each in spec.endpoints)
    wanted = spec.workload_selector.labels.items()
    return tuple(
        _endpoint(entry, workload.namespace, workload=workload.name, further=workload.labels)
        for workload, entry in workloads
        if workload.namespace == item.namespace and wanted <= _labels(workload, entry).items()
    )


def _labels(workload: ConfigObject, entry: WorkloadEntrySpec) -> dict[str, str]:
    return {**dict(workload.labels), **entry.labels}


def _endpoint(
    entry: WorkloadEntrySpec, namespace: str, *, workload: str, further: Labels = ()
) -> Endpoint:
    return Endpoint(
        address=entry.address,
        ports=tuple(sorted(entry.ports.items())),
        namespace=namespace,
        labels=tuple(sorted({**dict(further), **entry.labels}.items())),
        network=entry.network,
        locality=entry.locality,
        weight=entry.weight,
        service_account=entry.service_account,
        workload=workload,
    )
