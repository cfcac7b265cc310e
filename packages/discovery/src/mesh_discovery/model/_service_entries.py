"""Makes services of ServiceEntries and of the WorkloadEntries that they select."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mesh_discovery.config._objects import ConfigObject
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
    entries: Sequence[ConfigObject],
    *,
    before: Mapping[Key, int] | None = None,
    entries_before: Sequence[ConfigObject] = (),
) -> Mapping[Key, int]:
    """Allocate places for the services that are to have an address and were given none.

    before: the places of the model before, and `entries_before` its ServiceEntries. The same
    mapping is returned if nothing changed that decides over addresses.
    """
    if before is not None and _want_the_same(entries_before, entries):
        return before
    wanted: dict[Key, bool] = {}
    given: list[str] = []
    for item in entries:
        spec = item.spec
        if isinstance(spec, ServiceEntrySpec):
            given += spec.addresses
            for host in spec.hosts:
                key = item.namespace, host.lower()
                wanted.setdefault(key, _wants_address(item, spec, host))
    return allocate(
        [key for key, wants in wanted.items() if wants],
        given=given,
        before=before,
    )


def _want_the_same(before: Sequence[ConfigObject], after: Sequence[ConfigObject]) -> bool:
    if len(before) != len(after):
        return False
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if old is not new]
    return all(_wishes(old) == _wishes(new) for old, new in pairs)


def _wishes(item: ConfigObject) -> tuple[object, ...]:
    """Return everything that the addresses of a ServiceEntry's services depend on."""
    spec = item.spec
    if not isinstance(spec, ServiceEntrySpec):
        return ()
    return item.namespace, spec.hosts, spec.addresses, spec.resolution, item.labels


def _wants_address(item: ConfigObject, spec: ServiceEntrySpec, host: str) -> bool:
    return (
        not spec.addresses
        and spec.resolution is not Resolution.NONE
        and not host.startswith("*")
        and (NO_AUTO_ADDRESS_LABEL, "false") not in item.labels
    )


class _Source(NamedTuple):
    """Everything that the services of a ServiceEntry depend on."""

    item: ConfigObject
    spec: ServiceEntrySpec
    places: tuple[int | None, ...]
    workloads: tuple[ConfigObject, ...]
    export_to: tuple[str, ...]


class _Made(NamedTuple):
    source: _Source
    services: tuple[Service, ...]


class MadeServices:
    """The services of ServiceEntries, each made anew only if what it is made of changed.

    The others are the same objects as in the model before, so that comparing two models costs
    little where nothing changed. The services of a model replace those of the model before: there
    are as many as it has ServiceEntries.
    """

    def __init__(
        self,
        *,
        workloads: Mapping[str, tuple[ConfigObject, ...]] | None = None,
        allocated: Mapping[Key, int] | None = None,
        export_to: tuple[str, ...] = (),
        earlier: "MadeServices | None" = None,
    ) -> None:
        """Services of these WorkloadEntries, by namespace, and allocated addresses.

        export_to: of services that say nothing of it. earlier: the services of the model before.
        """
        self._workloads = {} if workloads is None else workloads
        self._allocated = {} if allocated is None else allocated
        self._export_to = export_to
        self._earlier = {} if earlier is None else earlier._made
        self._made: dict[tuple[str, str], _Made] = {}
        self._same_addresses = earlier is not None and earlier._allocated is self._allocated
        self._same_but_for_entries = (
            earlier is not None
            and self._same_addresses
            and earlier._export_to == export_to
            and earlier._workloads == self._workloads
        )
        self.count = 0
        """Of how many ServiceEntries services were made, and not taken over."""

    def __len__(self) -> int:
        """Return of how many ServiceEntries there are services."""
        return len(self._made)

    def make(self, item: ConfigObject, spec: ServiceEntrySpec) -> tuple[Service, ...]:
        """Return the services of a ServiceEntry, one a host."""
        namespace = item.namespace
        key = namespace, item.name
        known = self._earlier.get(key)
        workloads: tuple[ConfigObject, ...] = ()
        if spec.workload_selector is not None:
            workloads = self._workloads.get(namespace, ())
        if known is not None and self._same_addresses:
            source = known.source
            if (
                source.item is item
                and source.workloads == workloads
                and source.export_to == self._export_to
            ):
                self._made[key] = known
                return known.services
        places = tuple(self._allocated.get((namespace, each.lower())) for each in spec.hosts)
        source = _Source(item, spec, places, workloads, self._export_to)
        if known is None or not _gives_the_same(known.source, source):
            services = services_of(item, spec, workloads, self._export_to, self._allocated)
            known = _Made(source, tuple(services))
            self.count += 1
        else:
            known = _Made(source, known.services)
        self._made[key] = known
        return known.services

    def take_over(
        self, before: Sequence[ConfigObject], entries: Sequence[ConfigObject]
    ) -> Sequence[tuple[tuple[Service, ...], tuple[Service, ...]]] | None:
        """Take over all services but those of ServiceEntries that were edited.

        Returns the services of each of those before and now. None, and nothing is taken over, if
        more changed than that: then each ServiceEntry has to be made, in order.
        """
        if not self._same_but_for_entries or len(before) != len(entries):
            return None
        pairs = [(old, new) for old, new in zip(before, entries, strict=True) if old is not new]
        if any(_hosts(old) != _hosts(new) for old, new in pairs):
            return None
        self._made = dict(self._earlier)
        return [
            (self._earlier[old.namespace, old.name].services, self.make(new, new.spec))
            for old, new in pairs
            if isinstance(new.spec, ServiceEntrySpec)
        ]

    def finished(self) -> None:
        """Forget the services of the model before, which would keep those before it."""
        self._earlier = {}


def _hosts(item: ConfigObject) -> tuple[object, ...]:
    """Return the key of a ServiceEntry, and the hosts of its services."""
    hosts = item.spec.hosts if isinstance(item.spec, ServiceEntrySpec) else ()
    return item.namespace, item.name, hosts


def _gives_the_same(before: _Source, after: _Source) -> bool:
    return before.item.labels == after.item.labels and before[1:] == after[1:]


def services_of(
    item: ConfigObject,
    spec: ServiceEntrySpec,
    workloads: Iterable[ConfigObject],
    export_to: tuple[str, ...],
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
            export_to=spec.export_to or export_to,
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
    workloads: Iterable[ConfigObject],
) -> tuple[Endpoint, ...]:
    if spec.workload_selector is None:
        return tuple(_endpoint(each, item.namespace, workload=item.name) for each in spec.endpoints)
    wanted = spec.workload_selector.labels.items()
    return tuple(
        _endpoint(each.spec, each.namespace, workload=each.name, further=each.labels)
        for each in workloads
        if isinstance(each.spec, WorkloadEntrySpec)
        and each.namespace == item.namespace
        and wanted <= _labels(each, each.spec).items()
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
