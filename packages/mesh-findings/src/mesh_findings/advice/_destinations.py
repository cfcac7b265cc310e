"""Finds destinations whose port is left open, and subsets of which there is no endpoint."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain

from istio_config import ConfigObject
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, VirtualServiceSpec
from mesh_configfile import FieldPath, Problem
from mesh_findings.advice._mesh import Mesh
from mesh_findings.reachability._empty_subsets import selected_pods
from mesh_findings.unused._virtual_services import destinations_of
from mesh_model import Service, full_host


def absent_ports(mesh: Mesh, item: ConfigObject, spec: VirtualServiceSpec) -> Iterator[Problem]:
    """Yield destinations without a port that can't have that by which a Gateway takes requests."""
    gateways = mesh.gateways(spec, item.namespace)
    wanted = {server.port.number for each in gateways for server in each.spec.servers}
    for path, host, ports in _open(item, spec, mesh) if wanted else ():
        if missing := wanted - ports:
            yield item.problem(
                (*path, "host"),
                f"names no port, and {host} has several ({_listed(ports)}): what comes by a "
                f"Gateway's port {_listed(missing)} goes to that port, which is not there, and is "
                "answered with 503; give port.number",
                "IST0112",
            )


def ambiguous_ports(mesh: Mesh) -> Iterator[Problem]:
    """Yield destinations without a port that get what they get by the port of the request."""
    for item, spec in mesh.of_kind(VIRTUAL_SERVICE):
        own = {full_host(each, item.namespace, mesh.model.domain) for each in spec.hosts}
        for path, host, ports in _open(item, spec, mesh):
            if host in own:
                continue
            yield item.problem(
                (*path, "host"),
                f"names no port, and {host} has several ({_listed(ports)}): a request goes to the "
                "port of the number that it came to; port.number says which is meant",
                "IST0112",
            )


def _open(
    item: ConfigObject, spec: VirtualServiceSpec, mesh: Mesh
) -> Iterator[tuple[FieldPath, str, AbstractSet[int]]]:
    """Yield the destinations without a port, with host and the several ports of their service."""
    for path, destination in destinations_of(spec):
        if destination.port_number is not None:
            continue
        for service in mesh.services(destination.host, item.namespace):
            numbers = {each.number for each in service.ports if each.protocol is not Protocol.UDP}
            if len(service.ports) > 1 and numbers:
                yield path, service.host, numbers
            break


def unselecting_subsets(mesh: Mesh) -> Iterator[Problem]:
    """Yield subsets without an endpoint that no VirtualService names: prepared, perhaps.

    One that is named is reported there. Of a service without a known endpoint nothing is said.
    """
    named: AbstractSet[tuple[str, str]] | None = None
    for item, rule in mesh.of_kind(DESTINATION_RULE):
        if rule.host.startswith("*"):
            continue
        service = next(mesh.services(rule.host, item.namespace), None)
        for index, subset in enumerate(rule.subsets if service is not None else ()):
            if service is None or _selects(service, subset.labels, mesh):
                continue
            if named is None:
                named = _named_subsets(mesh)
            if (service.host, subset.name) in named:
                continue
            listed = ", ".join(f"{key}={value}" for key, value in sorted(subset.labels.items()))
            yield item.problem(
                ("spec", "subsets", index, "labels"),
                f'no endpoint of {service.host} has the labels of the subset "{subset.name}", '
                f"{listed}: what is routed to it is answered with 503; give the pods the "
                "labels, or remove the subset",
                "IST0173",
            )


def _selects(service: Service, wanted: Mapping[str, str], mesh: Mesh) -> bool:
    """Return whether a service has an endpoint with labels, or it can't be said that it has none.

    It can't be said of labels of the node or the cluster, and of a service without any endpoint.
    """
    if not wanted or any(each.startswith(_PLACES) for each in wanted):
        return True
    is_known = False
    endpoints = (each.labels for each in service.endpoints)
    for labels in chain(endpoints, selected_pods(service, mesh.pods)):
        if wanted.items() <= dict(labels).items():
            return True
        is_known = is_known or bool(labels)
    return not is_known


def _named_subsets(mesh: Mesh) -> AbstractSet[tuple[str, str]]:
    """Return host and name of the subsets that VirtualServices name."""
    return {
        (full_host(each.host, item.namespace, mesh.model.domain), each.subset)
        for item, spec in mesh.of_kind(VIRTUAL_SERVICE)
        for _, each in destinations_of(spec)
        if each.subset
    }


_PLACES = ("topology.kubernetes.io/", "topology.istio.io/", "kubernetes.io/hostname")


def _listed(numbers: AbstractSet[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
