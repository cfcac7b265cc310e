"""The name table of a proxy (NDS): the addresses by which its agent answers for names of the mesh.

For a proxy that says where it listens for its workload (OUTBOUND_BIND_ADDRESS), each name leads to
its own listeners. For any other the table is as Istio's: a service's addresses, or those allocated
for it, or else those of its endpoints, each of which may have a name of its own, too.

Source: Istio's pkg/dns/server (BuildNameTable) and istio.networking.nds.v1.NameTable.
"""

from collections.abc import Collection, Iterable

from envoy_config.plan import _envoy_names as names
from envoy_config.plan._outbound import Outbound, named_addresses, wanted_listeners
from envoy_config.plan._proxy import Naming
from istio_config.kinds.service_entry import Resolution
from mesh_model import Registry, Service
from mesh_protos.nds_pb2 import NameTable

KUBERNETES = "Kubernetes"
EXTERNAL = "External"
NAME_TABLE = "default"
"""The one resource's name, which no client asks for by it."""


def name_table(
    services: Iterable[Service],
    *,
    domain: str,
    naming: Naming,
    address: str = "",
    listeners: Collection[Outbound] | None = None,
) -> NameTable:
    """Make the table of a proxy with this DNS domain.

    listeners: its outbound ones, with their `address`, if they are what names lead to.
    """
    table = NameTable()
    for service in services:
        if listeners is None:
            addresses = _as_in_istio(service, domain, naming)
        else:
            addresses = _listened_on(service, naming, address, listeners)
        if not addresses:
            continue
        _add(table, service.host, addresses, _short_name(service, domain))
        for namespace, alias in service.aliases:
            _add(table, alias, addresses, (alias.partition(".")[0], namespace))
        for hostname, own in service.endpoint_names() if listeners is None else ():
            short = f"{hostname}.{service.name}", service.namespace
            _add(table, f"{hostname}.{service.host}", (own,), short)
    return table


def _add(
    table: NameTable, host: str, addresses: Iterable[str], short: tuple[str, str] | None
) -> None:
    info = table.table[host]
    info.ips.extend(each for each in addresses if each not in info.ips)
    info.registry = EXTERNAL
    if short is not None:
        info.registry = KUBERNETES
        info.shortname, info.namespace = short


def _short_name(service: Service, domain: str) -> tuple[str, str] | None:
    """Return the name and namespace by which workloads of the mesh may call a service."""
    if service.registry is Registry.KUBERNETES:
        return service.name, service.namespace
    return names.name_and_namespace(service.host, domain)


def _as_in_istio(service: Service, domain: str, naming: Naming) -> tuple[str, ...]:
    if service.addresses:
        return service.virtual_addresses
    if named := named_addresses(service, naming):
        return named
    if _short_name(service, domain) is None:
        return ()
    return service.named_by_endpoints()


def _listened_on(
    service: Service, naming: Naming, address: str, listeners: Collection[Outbound]
) -> tuple[str, ...]:
    if service.resolution is Resolution.NONE and not service.is_headless:
        return ()  # it leads to where a connection was going, which would be ourselves
    found = dict.fromkeys(
        wanted.bind
        for port in service.ports
        for wanted in wanted_listeners(service, port, address, naming)
        if wanted in listeners
    )
    named = named_addresses(service, naming)
    return tuple(each for each in found if not named or each in named)
