"""Finds what is said of hosts of other namespaces where each governs its own hosts alone.

It holds for the clients of its own namespace, and all of it is good there. It is reported where the
object asks for more, by its `exportTo` or by that of the mesh config.
"""

from collections.abc import Iterator

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import (
    ADDRESSES,
    HOSTS,
    KUBERNETES_SERVICE,
    KubernetesServiceSpec,
)
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import ServiceEntrySpec
from mesh_configfile import Problem
from mesh_findings.reachability._services import Sources
from mesh_model import MESH, NETWORK_LABEL, MeshModel, Service, VirtualService, foreign_host

_HOW = (
    'say exportTo ["."], or have the mesh\'s operators give it by the annotation '
    "{annotation} of the Namespace"
)


def foreign_hosts(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each host or address of a service that is not its namespace's."""
    if not model.owners.is_strict:
        return
    for item in model.registry.sources:
        match item.spec:
            case ServiceEntrySpec() as entry:
                yield from _of_entry(item, entry, model)
            case KubernetesServiceSpec():
                yield from _of_network(item, model)
            case _:
                pass


def unaddressed_ports(model: MeshModel) -> Iterator[Problem]:
    """Yield what clients of services with ports of TCP alone can't reach without an address."""
    if not model.owners.is_strict:
        return
    sources = Sources(model)
    for service in model.services:
        if service.takes_any_address or service.virtual_addresses:
            continue
        for port in service.ports:
            if port.protocol.is_http or port.protocol.is_tls or port.protocol is Protocol.UDP:
                continue
            if said := _unaddressed(service):
                yield sources.port_problem(service, port, said)


def _unaddressed(service: Service) -> str:
    if not service.is_headless:
        return (
            "TCP names no host, and the service has no address: it is not reached but at one that "
            'is allocated for DNS; give it addresses, or say exportTo ["."]'
        )
    others = [each.address for each in service.endpoints if not each.is_pod]
    if not others:
        return ""
    return (
        f"{', '.join(others[:3])}{', …' if len(others) > 3 else ''} is the address of no pod: "
        "redirected clients don't reach the service there"
    )


def kept_at_home(item: ConfigObject, virtual_service: VirtualService) -> Iterator[Problem]:
    """Yield a problem for each host of a VirtualService that keeps it from sidecars elsewhere."""
    if (
        virtual_service.mesh_export_to == virtual_service.export_to
        or MESH not in virtual_service.gateways
    ):
        return
    for index, host in enumerate(virtual_service.hosts):
        if host not in virtual_service.own_hosts:
            yield item.problem(
                ("spec", "hosts", index),
                f"{foreign_host(host, item.namespace)}: this VirtualService holds for the sidecars "
                f"of {item.namespace} alone; {_HOW.format(annotation=HOSTS)}",
            )


def _of_entry(item: ConfigObject, spec: ServiceEntrySpec, model: MeshModel) -> Iterator[Problem]:
    own, namespace = model.owners, item.namespace
    export_to = spec.export_to or model.mesh_config.default_service_export_to
    if own.is_at_home(namespace, export_to):
        return
    for index, host in enumerate(spec.hosts):
        if not own.owns(namespace, host):
            yield item.problem(
                ("spec", "hosts", index),
                f"{foreign_host(host, namespace)}: only clients there reach it by this; "
                f"{_HOW.format(annotation=HOSTS)}",
            )
    for index, address in enumerate(spec.addresses):
        if not own.has_address(namespace, address):
            yield item.problem(
                ("spec", "addresses", index),
                f"{address} is no address of namespace {namespace}: only clients there reach the "
                f"service; {_HOW.format(annotation=ADDRESSES)}",
            )


def _of_network(item: ConfigObject, model: MeshModel) -> Iterator[Problem]:
    root = model.mesh_config.root_namespace
    if item.namespace != root and dict(item.labels).get(NETWORK_LABEL):
        yield item.problem(
            ("metadata", "labels"),
            f"{NETWORK_LABEL} makes a {KUBERNETES_SERVICE.name} of namespace {root} the gateway of "
            "a network, and none of another namespace; name it in MeshNetworks",
        )
