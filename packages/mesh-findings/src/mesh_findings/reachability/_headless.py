"""Finds what is probably not meant of services whose connections are passed on as they come.

A proxy to which connections are redirected leaves the choice of an endpoint to its client: of a
headless service, and of one with resolution NONE. So it can't speak to each endpoint as that one
takes it, and what chooses endpoints chooses nothing. Proxies that balance, as gateways do, have no
part in this.
"""

from collections.abc import Callable, Iterable, Iterator

from envoy_config.plans import effective_policy, uses_mutual_tls, uses_mutual_tls_for_all
from istio_config import ConfigObject
from istio_config.host_patterns import has
from istio_config.kinds.peer_authentication import MutualTlsMode
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_configfile import Problem
from mesh_findings.reachability._services import Sources
from mesh_findings.unused._virtual_services import destinations_of, is_delegate
from mesh_model import MESH, MeshModel, Port, Service, changed_services, full_host

LeadingTo = Callable[[str], Iterable[ConfigObject]]
"""Finds the VirtualServices of which a destination has a host."""


def passed_on_warnings(model: MeshModel, leading_to: LeadingTo) -> Iterator[Problem]:
    """Yield what is probably not meant of services whose connections are passed on."""
    services = [each for each in model.services if each.resolution is Resolution.NONE]
    if not services:
        return
    sources = Sources(model)
    for service in services:
        yield from _spoken_to_alike(service, sources, model)
        if service.is_headless:
            for each in leading_to(service.host):
                yield from _not_chosen(each, service.host, model.domain)


def same_passed_on(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `passed_on_warnings` finds the same in both, if their VirtualServices are."""
    changed = changed_services(old, new)
    return (
        changed.same_order
        and not any(
            each is not None and each.resolution is Resolution.NONE
            for pair in changed.pairs.values()
            for each in pair
        )
        and old.policies == new.policies
        and old.destination_rules is new.destination_rules
        and old.mesh_config == new.mesh_config
    )


def _spoken_to_alike(service: Service, sources: Sources, model: MeshModel) -> Iterator[Problem]:
    if service.external or not model.mesh_config.enable_auto_mtls:
        return
    rule = model.destination_rules.rule_for(service.namespace, service)
    for port in service.ports:
        if port.protocol is Protocol.UDP:
            continue
        if effective_policy(rule, port.number, "", model).tls is not None:
            continue  # it says itself how all are spoken to
        said = _of_port(service, port, model)
        if said:
            yield sources.port_problem(service, port, said)


def _of_port(service: Service, port: Port, model: MeshModel) -> str:
    endpoints = service.endpoints_of(port)
    if not service.is_headless:
        if model.policies.namespace_mode(service.namespace) is not MutualTlsMode.STRICT:
            return ""
        return (
            "resolution NONE knows no endpoints, so they are called in plaintext, which the mode "
            "STRICT of its namespace refuses; give a DestinationRule tls mode ISTIO_MUTUAL, or "
            "say location MESH_EXTERNAL"
        )
    plain = [each.address for each in endpoints if not uses_mutual_tls(each, port, model)]
    if not plain or len(plain) == len(endpoints):
        return ""
    named = f"{len(plain)} of {len(endpoints)} endpoints ({', '.join(plain[:3])}"
    named += ", …)" if len(plain) > 3 else ")"
    if uses_mutual_tls_for_all(service, port, model):
        return (
            f"{named} take no mutual TLS and others nothing else: redirected clients, which call "
            "all of a headless service alike, don't reach them; give each pod a sidecar"
        )
    return (
        f"{named} take no mutual TLS: redirected clients, which call all of a headless service "
        "alike, call every one in plaintext, and policies by principal deny them; give each pod a "
        "sidecar"
    )


def _not_chosen(item: ConfigObject, host: str, domain: str) -> Iterator[Problem]:
    """Yield the destinations at which redirected clients come to another endpoint than meant."""
    spec = item.spec
    if not isinstance(spec, VirtualServiceSpec) or MESH not in (spec.gateways or (MESH,)):
        return
    if is_delegate(item):
        return  # its hosts are those of who delegates to it
    hosts = [full_host(each, item.namespace, domain) for each in spec.hosts]
    leads_home = any(has(each, host) or each.endswith(f".{host}") for each in hosts)
    for path, destination in destinations_of(spec):
        if full_host(destination.host, item.namespace, domain) != host:
            continue
        if not leads_home:
            yield item.problem(
                (*path, "host"),
                f"{host} is headless: redirected clients are led on to the address that they "
                "called, which is none of its endpoints; give it a clusterIP",
            )
        elif destination.subset:
            yield item.problem(
                (*path, "subset"),
                f"{host} is headless: redirected clients choose the endpoint themselves, whichever "
                "subset it is of; give it a clusterIP",
            )
