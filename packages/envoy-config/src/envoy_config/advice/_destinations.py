"""Finds destinations whose port is left open, and subsets of which there is no endpoint."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from envoy_config.advice._mesh import Mesh
from envoy_config.plan.virtual_hosts._unused import destinations_of
from envoy_config.reachability import selected_pods
from istio_config import ConfigObject
from istio_config.kinds.destination_rule import DestinationRuleSpec
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_configfile import FieldPath, Problem
from mesh_model import full_host


def absent_ports(mesh: Mesh) -> Iterator[Problem]:
    """Yield destinations without a port that can't have that by which a Gateway takes requests."""
    for item, path, host, ports in _open(mesh):
        wanted = {
            server.port.number
            for _, gateway in mesh.gateways(item)
            for server in gateway.spec.servers
        }
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
    for item, path, host, ports in _open(mesh):
        spec = item.spec
        hosts = spec.hosts if isinstance(spec, VirtualServiceSpec) else ()
        own = {full_host(each, item.namespace, mesh.model.domain) for each in hosts}
        if host not in own:
            yield item.problem(
                (*path, "host"),
                f"names no port, and {host} has several ({_listed(ports)}): a request goes to the "
                "port of the number that it came to; port.number says which is meant",
                "IST0112",
            )


_OpenDestination = tuple[ConfigObject, FieldPath, str, AbstractSet[int]]


def _open(mesh: Mesh) -> Iterator[_OpenDestination]:
    """Yield destinations without a port, with the several ports of their service."""
    for item in mesh.objects:
        for path, destination in destinations_of(item.spec):
            if destination.port_number is not None:
                continue
            for service in mesh.services(destination.host, item.namespace):
                numbers = {
                    each.number for each in service.ports if each.protocol is not Protocol.UDP
                }
                if len(service.ports) > 1 and numbers:
                    yield item, path, service.host, numbers
                break


def unselecting_subsets(mesh: Mesh) -> Iterator[Problem]:
    """Yield subsets without an endpoint that no VirtualService names.

    One that is named is reported there. Of a service without a known endpoint nothing is said.
    """
    named = {
        (full_host(each.host, item.namespace, mesh.model.domain), each.subset)
        for item in mesh.objects
        for _, each in destinations_of(item.spec)
    }
    for item in mesh.objects:
        rule = item.spec
        if not isinstance(rule, DestinationRuleSpec) or rule.host.startswith("*"):
            continue
        service = next(mesh.services(rule.host, item.namespace), None)
        if service is None:
            continue
        known = {each.labels for each in service.endpoints}
        known.update(selected_pods(service, mesh.pods))
        if not any(known):
            continue
        for index, subset in enumerate(rule.subsets):
            wanted = subset.labels.items()
            if (service.host, subset.name) in named or not wanted or _by_place(subset.labels):
                continue
            if not any(wanted <= dict(labels).items() for labels in known):
                listed = ", ".join(f"{key}={value}" for key, value in sorted(wanted))
                yield item.problem(
                    ("spec", "subsets", index, "labels"),
                    f'no endpoint of {service.host} has the labels of the subset "{subset.name}", '
                    f"{listed}: what is routed to it is answered with 503; give the pods the "
                    "labels, or remove the subset",
                    "IST0173",
                )


_PLACES = ("topology.kubernetes.io/", "topology.istio.io/", "kubernetes.io/hostname")


def _by_place(labels: dict[str, str]) -> bool:
    """Return whether labels are of the node or the cluster, which no pod has in its own."""
    return any(each.startswith(_PLACES) for each in labels)


def _listed(numbers: AbstractSet[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
