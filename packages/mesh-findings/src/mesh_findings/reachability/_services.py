"""Finds services, hosts and ports that are configured and that no proxy can reach.

Each object is valid by itself, so none of this makes a file wrong, and all other services are
served. Conflicts with the ports of one proxy's own workload are found by the push context.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from envoy_config.plans import HTTP_PROXY_ROUTE, Conflict, Outbound, wanted_listeners
from istio_config import ConfigObject
from istio_config.addresses import is_ip
from istio_config.edits import replacements
from istio_config.kinds.kubernetes import KubernetesServiceSpec
from istio_config.kinds.mesh_config import InterceptionMode
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution, ServiceEntrySpec
from mesh_configfile import FieldPath, Problem
from mesh_model import MeshModel, Port, Registry, Service, changed_services

_ANY = ""
"""Stands for the outbound address of a proxy, whichever it is."""


def unreachable_services(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for every service, host and port that can't be reached."""
    sources = Sources(model)
    services = list(map(sources.get, model.services))
    yield from _hosts_served_twice(model, sources)
    yield from _hosts_of_several_namespaces(services)
    redirected = is_redirected(model)
    if redirected:
        yield from _ports_taken([_without_distinct_ports(each) for each in services], None)
    else:
        yield from _ports_taken(services, model.mesh_config.proxy_http_port)
        yield from _addresses_of_one_machine(services, model)
    for each in model.registry.sources:
        yield from _udp(each)
        if not redirected:
            yield from _without_interception(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedService:
    """A service and the object that it comes from."""

    service: Service
    item: ConfigObject

    @property
    def host_path(self) -> FieldPath:
        spec = self.item.spec
        if not isinstance(spec, ServiceEntrySpec):
            return "metadata", "name"
        return "spec", "hosts", [each.lower() for each in spec.hosts].index(self.service.host)

    def port_path(self, number: int) -> FieldPath:
        """Return the field of a port; one that came from another object has that of them all."""
        numbers = _port_numbers(self.item)
        return ("spec", "ports", numbers.index(number)) if number in numbers else ("spec", "ports")

    def __str__(self) -> str:
        return f"{self.item.kind} {self.item.namespace}/{self.item.name} ({self.item.place})"


class Sources:
    """Finds the objects that services come from; it looks through them once one is asked for."""

    def __init__(self, model: MeshModel) -> None:
        self._objects = model.registry.sources

    def get(self, service: Service) -> SourcedService:
        """Return a service with its object."""
        item = self._by_key[service.registry, service.namespace, service.name]
        return SourcedService(service=service, item=item)

    def port_problem(self, service: Service, port: Port, message: str) -> Problem:
        """Return a problem of a service's port."""
        found = self.get(service)
        message = f"port {port.number}: {message}"
        return found.item.problem(found.port_path(port.number), message)

    @cached_property
    def _by_key(self) -> Mapping[tuple[Registry, str, str], ConfigObject]:
        return {
            (
                Registry.KUBERNETES
                if isinstance(each.spec, KubernetesServiceSpec)
                else Registry.EXTERNAL,
                each.namespace,
                each.name,
            ): each
            for each in self._objects
        }


def is_redirected(model: MeshModel) -> bool:
    """Return whether the proxies of a mesh are mostly redirected, as its mesh config says."""
    mode = model.mesh_config.default_config.interception_mode
    return mode is not InterceptionMode.NONE


def _without_distinct_ports(sourced: SourcedService) -> SourcedService:
    """Return a service without the ports that redirected proxies distinguish at any address."""
    service = sourced.service
    ports = tuple(
        port
        for port in service.ports
        if not port.protocol.is_http and (service.virtual_addresses or not port.protocol.is_tls)
    )
    return replace(sourced, service=replace(service, ports=ports))


def same_services(old: MeshModel, new: MeshModel) -> bool:
    """Return whether the services of two models differ in endpoints at most.

    Then `unreachable_services` finds the same in both. Costs what differs, not what the mesh has.
    """
    return (
        _same_but_for_endpoints(old.registry.sources, new.registry.sources)
        and is_redirected(old) == is_redirected(new)
        and old.mesh_config.proxy_http_port == new.mesh_config.proxy_http_port
        and old.mesh_config.default_service_export_to == new.mesh_config.default_service_export_to
        # A Namespace that is given a host or an address exports its services of it to others.
        and old.owners == new.owners
        and _same_loopback_workloads(old, new)
    )


def _same_but_for_endpoints(before: Sequence[ConfigObject], after: Sequence[ConfigObject]) -> bool:
    pairs = replacements(before, after)
    return pairs is not None and all(
        _without_endpoints(old) == _without_endpoints(new) for old, new in pairs
    )


def _without_endpoints(item: ConfigObject) -> ConfigObject:
    if not isinstance(item.spec, ServiceEntrySpec):
        return item
    return replace(item, spec=msgspec.structs.replace(item.spec, endpoints=()))


def _same_loopback_workloads(old: MeshModel, new: MeshModel) -> bool:
    changed = changed_services(old, new)
    return changed.same_order and all(
        before is not None
        and after is not None
        and _loopback_workloads((before,)) == _loopback_workloads((after,))
        for before, after in changed.pairs.values()
    )


def _port_numbers(item: ConfigObject) -> list[int]:
    """Return the numbers of an object's service ports, in their order."""
    match item.spec:
        case ServiceEntrySpec(ports=ports):
            return [each.number for each in ports]
        case KubernetesServiceSpec(ports=kubernetes_ports):
            return [each.port for each in kubernetes_ports or ()]
        case _:
            return []


def _hosts_served_twice(model: MeshModel, sources: Sources) -> Iterator[Problem]:
    """Find ServiceEntries of which a host is another object's service, and not united with it."""
    for key, services in model.registry.combined.several.items():
        served = model.by_key.get(key)
        for each in services:
            if served is None or (each.registry, each.name) == (served.registry, served.name):
                continue
            yield from _not_united(sources.get(each), sources.get(served))


def _not_united(sourced: SourcedService, first: SourcedService) -> Iterator[Problem]:
    served = first.service
    host = f'"{sourced.service.host}" is served by {first}'
    if served.registry is not sourced.service.registry:
        yield sourced.item.problem(
            sourced.host_path,
            f"{host}: a Kubernetes service comes before a ServiceEntry of its host, and nothing "
            "reaches this one; give it another host",
        )
    elif served.resolution is not sourced.service.resolution:
        yield sourced.item.problem(
            sourced.host_path,
            f"{host} with resolution {served.resolution}, which comes first: nothing reaches this "
            "one; give both the same resolution, or this one another host",
        )
    else:
        for port in sourced.service.ports:
            if served.port(port.number) is None:
                yield sourced.item.problem(
                    sourced.port_path(port.number),
                    f"{host}, which comes first and has no port {port.number}: it gets none from "
                    "this one, whose labels, workloadSelector or exportTo are others",
                )


def _hosts_of_several_namespaces(services: list[SourcedService]) -> Iterator[Problem]:
    """Find services that namespaces pass over which see another of the host, and have none."""
    by_host: dict[str, list[SourcedService]] = {}
    with_own: dict[str, set[str]] = {}
    for each in services:
        owned = with_own.setdefault(each.service.host, set())
        if each.service.visible_in(each.service.namespace):
            owned.add(each.service.namespace)
    # The order in which proxies of other namespaces prefer them (`model._visibility`).
    for each in sorted(services, key=lambda each: each.service.registry is not Registry.KUBERNETES):
        known = by_host.setdefault(each.service.host, [])
        elsewhere = (
            other
            for other in known
            if _common_namespaces(other.service, each.service) - with_own[each.service.host]
        )
        rival = next(elsewhere, None)
        if rival is not None:
            yield each.item.problem(
                each.host_path,
                f'"{each.service.host}" is served by {rival}, too, which comes first: of the '
                f"proxies outside {each.service.namespace}, those that know both reach only that "
                'one; keep this one to its namespace with exportTo ["."], or give it another host',
            )
        known.append(each)


def _common_namespaces(one: Service, other: Service) -> set[str]:
    """Return the namespaces that see both; "*" stands for those that neither names."""
    named = _exported_to(one) | _exported_to(other)
    return {each for each in named if one.visible_in(each) and other.visible_in(each)}


def _exported_to(service: Service) -> set[str]:
    names = {service.namespace if each == "." else each for each in service.export_to}
    return {"*"} if "*" in names else names - {"~"}


def _ports_taken(services: list[SourcedService], http_proxy_port: int | None) -> Iterator[Problem]:
    addresses: dict[tuple[str, int], _ListenAddress] = {}
    for each in services:
        for port in () if each.service.is_headless else each.service.ports:
            path = each.port_path(port.number)
            for wanted in wanted_listeners(each.service, port, _ANY):
                address = wanted.bind, wanted.port
                if address == (_ANY, http_proxy_port):
                    yield each.item.problem(
                        path,
                        f"{port.number} is mesh config's proxyHttpPort: proxies that know this "
                        "service have no HTTP proxy; change one of the two",
                    )
                rival = addresses.setdefault(address, _ListenAddress()).add(each, wanted)
                if rival is not None:
                    at = (
                        f"{wanted.bind} port {port.number}"
                        if wanted.bind
                        else f"port {port.number}"
                    )
                    yield each.item.problem(
                        path,
                        f"{at} belongs to {rival}, which comes first: what connects there "
                        "reaches only that one; give one of the two another port, or an address of "
                        "its own in spec.addresses",
                    )


class _ListenAddress:
    """An address and port, and the services that listen there in the view of each namespace.

    Kept by the names in `exportTo`, so that services of many namespaces, each for itself, cost no
    more than as many of one.
    """

    def __init__(self) -> None:
        self._owners: dict[str, dict[Outbound, SourcedService]] = {}

    def add(self, sourced: SourcedService, listener: Outbound) -> SourcedService | None:
        """Add a service here; or return the service in its way, if some namespace sees both."""
        names = _exported_to(sourced.service)
        if not names:
            return None
        seen_beside = self._owners if "*" in names else {*names, "*"} & self._owners.keys()
        for name in seen_beside:
            for other, owner in self._owners[name].items():
                if other != listener:
                    return owner
        for name in names:
            self._owners.setdefault(name, {}).setdefault(listener, sourced)
        return None


def _addresses_of_one_machine(
    services: list[SourcedService], model: MeshModel
) -> Iterator[Problem]:
    """Find virtual addresses that several proxies of one machine would have to listen on.

    Workloads on loopback addresses are all on one machine. Elsewhere it can't be known before.
    """
    workloads = _loopback_workloads(model.services)
    for each in services:
        addresses = each.service.virtual_addresses
        tcp = [
            port
            for port in each.service.ports
            if not port.protocol.is_http and port.protocol is not Protocol.UDP
        ]
        agents = sorted(
            address
            for address, namespace in workloads.items()
            if each.service.visible_in(namespace)
        )
        if addresses and tcp and len(agents) > 1:
            yield each.item.problem(
                ("spec", "addresses"),
                f"{addresses[0]} port {tcp[0].number} is wanted by {len(agents)} proxies of one "
                f"machine ({', '.join(agents[:3])}{', …' if len(agents) > 3 else ''}), and only "
                "one of them can listen there; leave addresses out: proxies then listen on their "
                "own outbound address",
            )


def _loopback_workloads(services: Iterable[Service]) -> Mapping[str, str]:
    return {
        endpoint.address: endpoint.namespace
        for service in services
        for endpoint in service.endpoints
        if _is_loopback(endpoint.address) and endpoint.speaks_mutual_tls
    }


def _is_loopback(address: str) -> bool:
    """Return whether an address is a loopback address; most are recognised by their text."""
    return address == "::1" or (address.startswith("127.") and is_ip(address))


def _without_interception(item: ConfigObject) -> Iterator[Problem]:
    spec = item.spec
    if not isinstance(spec, ServiceEntrySpec):
        return
    if spec.resolution is Resolution.NONE and spec.ports:
        yield item.problem(
            ("spec", "resolution"),
            "NONE leads to where a connection was going before it was intercepted, and no "
            "connections are intercepted here: the host is not reached; use DNS, or STATIC with "
            "endpoints; if connections are intercepted, say so in mesh config's "
            "defaultConfig.interceptionMode",
        )


def _udp(item: ConfigObject) -> Iterator[Problem]:
    spec = item.spec
    if not isinstance(spec, ServiceEntrySpec):
        return
    for index, port in enumerate(spec.ports):
        if port.known_protocol is Protocol.UDP:
            yield item.problem(
                ("spec", "ports", index), f"UDP is not carried: nothing listens on {port.number}"
            )


def places_taken(conflicts: Iterable[Conflict], model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each service that found no place to listen at a connected proxy."""
    sources = Sources(model)
    by_host = {each.host: sources.get(each).item for each in reversed(model.services)}
    for each in conflicts:
        place = f"{each.bind}:{each.port}"
        holder = "the workload of a proxy" if each.is_workloads else "a service that comes first"
        item = by_host.get(each.host)
        if item is None:
            wanted = each.host
            if each.host == HTTP_PROXY_ROUTE:
                wanted = f"the HTTP proxy, for which mesh config's proxyHttpPort is {each.port},"
            message = f"{holder} listens on {place}: {wanted} can't listen there"
            yield Problem(file="", line=1, message=message)
            continue
        numbers = _port_numbers(item)
        yield item.problem(
            ("spec", "ports", numbers.index(each.port)) if each.port in numbers else ("spec",),
            f"{holder} listens on {place}, and calls from there to this service's port arrive at "
            f"that one; {_HOW_BESIDE_WORKLOAD if each.is_workloads else _HOW_BESIDE_SERVICE}",
        )


_HOW_BESIDE_WORKLOAD = (
    "give the service another port (its targetPort may stay), that proxy another "
    "OUTBOUND_BIND_ADDRESS, or, for HTTP, mesh config a proxyHttpPort"
)
_HOW_BESIDE_SERVICE = "give one of the two another port, or an address of its own"


def reached_by_http_proxy(
    services: Iterable[Conflict], http_proxy_port: int | None
) -> Iterator[Problem]:
    """Yield a note for each place of a workload beside which services have the HTTP proxy alone."""
    hosts: dict[tuple[str, int], set[str]] = {}
    for each in services:
        hosts.setdefault((each.bind, each.port), set()).add(each.host)
    for (bind, port), named in sorted(hosts.items()):
        first = min(named)
        others = f" and {len(named) - 1} more" if len(named) > 1 else ""
        message = (
            f"where a workload listens on {bind}:{port} itself, its own calls to {first}{others} "
            f"go through the HTTP proxy on port {http_proxy_port}"
        )
        yield Problem(file="", line=1, message=message)
