"""Finds VirtualServices, or parts of them, without effect; problems say where in the files.

Each object is valid by itself. A delegate may be missing, or no root may name it; another
VirtualService may apply to the same host; a destination may be no service, or a subset of no rule.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from istio_config import ConfigObject
from istio_config.kinds.virtual_service import Destination, VirtualServiceSpec
from mesh_configfile import FieldPath, Problem
from mesh_model import full_host


def is_delegate(item: ConfigObject) -> bool:
    """Return whether a VirtualService has no hosts: others delegate to it."""
    return isinstance(item.spec, VirtualServiceSpec) and not item.spec.hosts


def delegates_of(item: ConfigObject) -> frozenset[tuple[str, str]]:
    """Return namespaces and names of the VirtualServices that an object delegates to."""
    if not isinstance(item.spec, VirtualServiceSpec):
        return frozenset()
    return frozenset(
        (route.delegate.namespace or item.namespace, route.delegate.name)
        for route in item.spec.http
        if route.delegate is not None
    )


def missing_destinations(
    item: ConfigObject,
    has_host: Callable[[str], bool],
    has_subset: Callable[[str, str], bool],
    *,
    domain: str,
    ports_of: Callable[[str], AbstractSet[int] | None],
) -> Iterator[Problem]:
    """Yield the destinations of an object that lead nowhere.

    has_subset: tells whether a rule of a host has a subset. domain: the mesh's, of short names.
    ports_of: returns the ports of a host, None if they are not known.
    """
    for path, destination in destinations_of(item.spec):
        host = full_host(destination.host, item.namespace, domain)
        if not has_host(host):
            yield item.problem(
                (*path, "host"),
                f"there is no service {host}: what is sent there is answered with 503, or closed",
                "IST0101",
            )
        elif destination.subset and not has_subset(host, destination.subset):
            yield item.problem(
                (*path, "subset"),
                f'no DestinationRule for {host} has the subset "{destination.subset}": what is '
                "sent there is answered with 503, or closed",
                "IST0101",
            )
        ports, number = ports_of(host), destination.port_number
        if ports is not None and number is not None and number not in ports:
            listed = ", ".join(map(str, sorted(ports))) or "none"
            yield item.problem(
                (*path, "port", "number"),
                f"the service {host} has no port {number}, its ports are {listed}: what is sent "
                "there is answered with 503, or closed",
                "IST0101",
            )


def destination_hosts(item: ConfigObject, domain: str) -> frozenset[str]:
    """Return the hosts to which an object leads; domain: the mesh's, of short names."""
    hosts = {destination.host for _, destination in destinations_of(item.spec)}
    return frozenset(full_host(each, item.namespace, domain) for each in hosts)


def destinations_of(spec: object) -> Iterator[tuple[FieldPath, Destination]]:
    """Yield all destinations of a VirtualService's spec, mirrors too, with their places."""
    if not isinstance(spec, VirtualServiceSpec):
        return
    weighted: list[tuple[FieldPath, Destination | None]] = []
    for index, http in enumerate(spec.http):
        place: FieldPath = ("spec", "http", index, "route")
        weighted += [((*place, at), each.destination) for at, each in enumerate(http.route)]
    for index, tls in enumerate(spec.tls):
        place = ("spec", "tls", index, "route")
        weighted += [((*place, at), each.destination) for at, each in enumerate(tls.route)]
    for index, tcp in enumerate(spec.tcp):
        place = ("spec", "tcp", index, "route")
        weighted += [((*place, at), each.destination) for at, each in enumerate(tcp.route)]
    for place, destination in weighted:
        if destination is not None:
            yield (*place, "destination"), destination
    for index, http in enumerate(spec.http):
        if http.mirror is not None:
            yield ("spec", "http", index, "mirror"), http.mirror
        for at, mirror in enumerate(http.mirrors):
            if mirror.destination is not None:
                yield ("spec", "http", index, "mirrors", at, "destination"), mirror.destination
