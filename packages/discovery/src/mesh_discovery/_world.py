"""A snapshot of configuration, seen as a mesh: services with endpoints, policies, settings.

Pure and immutable: the same snapshot gives an equal world, and two worlds are compared to find
what a push must carry.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mesh_discovery._loader import Snapshot
from mesh_discovery._model import Endpoint, Labels, Port, Service
from mesh_discovery._objects import ConfigObject
from mesh_discovery._policy import PeerPolicies, Policy
from mesh_discovery._ports import Protocol
from mesh_discovery._schema import (
    Location,
    MeshConfigSpec,
    PeerAuthenticationSpec,
    Resolution,
    ServiceEntrySpec,
    WorkloadEntrySpec,
)


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything that configuration says, ready for generators."""

    mesh: MeshConfigSpec
    trust_domain: str
    services: tuple[Service, ...]
    """Oldest first; each host of a namespace once."""
    policies: PeerPolicies

    @cached_property
    def by_key(self) -> dict[tuple[str, str], Service]:
        """Services by namespace and host."""
        return {(service.namespace, service.host): service for service in self.services}

    @cached_property
    def by_address(self) -> dict[tuple[str, str], tuple[tuple[Service, Endpoint], ...]]:
        """What is served by an address of a namespace."""
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
        return (self.trust_domain, *self.mesh.trust_domain_aliases)


def build_world(snapshot: Snapshot, *, default_trust_domain: str = "cluster.local") -> World:
    """Derive the mesh from a snapshot; mesh config's trustDomain wins over the default."""
    workloads = [
        (each, each.spec) for each in snapshot.objects if isinstance(each.spec, WorkloadEntrySpec)
    ]
    services: dict[tuple[str, str], Service] = {}
    for each in snapshot.objects:
        if isinstance(each.spec, ServiceEntrySpec):
            for service in _services(each, each.spec, workloads, snapshot.mesh):
                services.setdefault((service.namespace, service.host), service)
    return World(
        mesh=snapshot.mesh,
        trust_domain=snapshot.mesh.trust_domain or default_trust_domain,
        services=tuple(services.values()),
        policies=PeerPolicies(
            root_namespace=snapshot.mesh.root_namespace,
            policies=tuple(
                Policy(namespace=each.namespace, spec=each.spec)
                for each in snapshot.objects
                if isinstance(each.spec, PeerAuthenticationSpec)
            ),
        ),
    )


def _services(
    item: ConfigObject,
    spec: ServiceEntrySpec,
    workloads: Iterable[tuple[ConfigObject, WorkloadEntrySpec]],
    mesh: MeshConfigSpec,
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
        yield Service(
            host=host,
            namespace=item.namespace,
            name=item.name,
            ports=ports,
            endpoints=endpoints or _named_by_host(host, item, spec),
            addresses=spec.addresses,
            resolution=spec.resolution,
            external=spec.location is Location.MESH_EXTERNAL,
            export_to=spec.export_to or mesh.default_service_export_to,
            subject_alt_names=spec.subject_alt_names,
        )


def _named_by_host(host: str, item: ConfigObject, spec: ServiceEntrySpec) -> tuple[Endpoint, ...]:
    """Let the host itself be the endpoint of a service that is looked up by DNS."""
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
