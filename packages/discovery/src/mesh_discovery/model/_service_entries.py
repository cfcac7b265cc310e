"""Makes services of ServiceEntries and of the WorkloadEntries that they select."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds._mesh_config import MeshConfigSpec
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._service_entry import Location, Resolution, ServiceEntrySpec
from mesh_discovery.config.kinds._workload_entry import WorkloadEntrySpec
from mesh_discovery.model._auto_addresses import (
    NO_AUTO_ADDRESS_LABEL,
    Key,
    allocate,
    auto_addresses,
)
from mesh_discovery.model._services import Endpoint, Labels, Port, Service


def allocated_addresses(
    entries: Iterable[tuple[ConfigObject, ServiceEntrySpec]], before: Mapping[Key, int] | None
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
        before=before,
    )


def _wants_address(item: ConfigObject, spec: ServiceEntrySpec, host: str) -> bool:
    return (
        not spec.addresses
        and spec.resolution is not Resolution.NONE
        and not host.startswith("*")
        and (NO_AUTO_ADDRESS_LABEL, "false") not in item.labels
    )


class _Source(NamedTuple):
    """Everything that the services of a ServiceEntry depend on."""

    spec: ServiceEntrySpec
    labels: Labels
    places: tuple[int | None, ...]
    workloads: tuple[tuple[ConfigObject, WorkloadEntrySpec], ...]
    export_to: tuple[str, ...]


class MadeServices:
    """The services of ServiceEntries, each made anew only if what it is made of changed.

    The others are the same objects as in the model before, so that comparing two models costs
    little where nothing changed.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], tuple[_Source, tuple[Service, ...]]] = {}

    def __len__(self) -> int:
        """Return of how many ServiceEntries there are services."""
        return len(self._made)

    def make(
        self,
        item: ConfigObject,
        spec: ServiceEntrySpec,
        workloads: tuple[tuple[ConfigObject, WorkloadEntrySpec], ...],
        mesh_config: MeshConfigSpec,
        allocated: Mapping[Key, int],
        *,
        earlier: "MadeServices",
    ) -> tuple[Service, ...]:
        """Return the services of a ServiceEntry, one a host.

        workloads: those of its namespace. earlier: the services of the model before.
        """
        source = _Source(
            spec=spec,
            labels=item.labels,
            places=tuple(allocated.get((item.namespace, each.lower())) for each in spec.hosts),
            workloads=workloads if spec.workload_selector is not None else (),
            export_to=mesh_config.default_service_export_to,
        )
        key = item.namespace, item.name
        known = earlier._made.get(key)
        if known is None or known[0] != source:
            services = services_of(item, spec, source.workloads, mesh_config, allocated)
            known = source, tuple(services)
        self._made[key] = known
        return known[1]


def services_of(
    item: ConfigObject,
    spec: ServiceEntrySpec,
    workloads: Iterable[tuple[ConfigObject, WorkloadEntrySpec]],
    mesh_config: MeshConfigSpec,
    allocated: Mapping[Key, int],
) -> Iterable[Service]:
    """Yield the services of a ServiceEntry, one a host."""
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
