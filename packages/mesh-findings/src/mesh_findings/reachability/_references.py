"""The names in rules that others define, and which of them can't be decided.

Beside mistakes it is not known what is defined: a service may have an unreadable name, or stand in
a text that is no YAML. What is named only there is not reported as missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.authorization_policy import AuthorizationPolicySpec
from istio_config.kinds.destination_rule import DestinationRuleSpec, TrafficPolicy
from istio_config.kinds.envoy_filter import EnvoyFilterSpec
from istio_config.kinds.gateway import GatewaySpec
from istio_config.kinds.gateway_api import GatewaySpec as KubernetesGatewaySpec
from istio_config.kinds.kubernetes import KubernetesServiceSpec, SecretFields
from istio_config.kinds.request_authentication import RequestAuthenticationSpec
from istio_config.kinds.selection import gateway_references
from istio_config.kinds.service_entry import ServiceEntrySpec
from istio_config.kinds.sidecar import SidecarSpec
from istio_config.kinds.telemetry import TelemetrySpec
from istio_config.kinds.traffic_extension import TrafficExtensionSpec, WasmPluginSpec
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, VirtualServiceSpec
from mesh_configfile import FieldPath, Problem
from mesh_configfile.mending import touches
from mesh_findings.reachability._known_hosts import NO_HOSTS
from mesh_findings.reachability._rules import RuleFindings
from mesh_findings.unused._gateways import is_translated
from mesh_findings.unused._virtual_services import destinations_of, missing_destinations
from mesh_model import MeshModel, full_host


class Sort(StrEnum):
    """The sorts of names."""

    SERVICE = "service"
    PORT = "port of a service"
    SUBSET = "subset of a service"
    GATEWAY = "Gateway"
    KUBERNETES_GATEWAY = "Gateway of the Gateway API"
    SECRET = "Secret"  # noqa: S105 - a sort of objects


class Reference(NamedTuple):
    """A name in a rule. at: its field, as a problem. name: of a port or subset, its service's."""

    sort: Sort
    name: str
    at: Problem


def references(objects: Iterable[ConfigObject], domain: str) -> Iterator[Reference]:
    """Yield the names that rules have and other objects define; domain: the mesh's."""
    for item in objects:
        for sort, name, path in _names_in(item, domain):
            yield Reference(sort, name, item.problem(path, ""))


_Named = tuple[Sort, str, FieldPath]


def _names_in(item: ConfigObject, domain: str) -> Iterator[_Named]:
    match item.spec:
        case VirtualServiceSpec() as spec:
            for index, gateway in enumerate(spec.gateways):
                yield Sort.GATEWAY, gateway, ("spec", "gateways", index)
            for path, destination in destinations_of(spec):
                host = full_host(destination.host, item.namespace, domain)
                yield Sort.SERVICE, host, (*path, "host")
                yield Sort.SUBSET, host, (*path, "subset")
                yield Sort.PORT, host, (*path, "port", "number")
        case DestinationRuleSpec() as rule:
            host = full_host(rule.host, item.namespace, domain)
            yield Sort.SERVICE, host, ("spec", "host")
            yield from _ports(rule.traffic_policy, host, ("spec", "trafficPolicy"))
            for at, each in enumerate(rule.subsets):
                path = ("spec", "subsets", at, "trafficPolicy")
                yield from _ports(each.traffic_policy, host, path)
        case GatewaySpec() as gateways:
            yield from _secrets(gateways)
        case SidecarSpec(egress=egress):
            for at, listener in enumerate(egress):
                for index, shown in enumerate(listener.hosts):
                    host = shown.rpartition("/")[2]
                    yield Sort.SERVICE, host, ("spec", "egress", at, "hosts", index)
        case (
            AuthorizationPolicySpec()
            | EnvoyFilterSpec()
            | RequestAuthenticationSpec()
            | TelemetrySpec()
            | TrafficExtensionSpec()
            | WasmPluginSpec()
        ):
            for path, name in gateway_targets(item.spec):
                yield Sort.KUBERNETES_GATEWAY, name, path
        case _:
            pass  # other kinds name nothing that another object defines


def gateway_targets(spec: object) -> Iterator[tuple[FieldPath, str]]:
    """Yield the Gateways of the Gateway API that a policy is attached to, with their fields."""
    match spec:
        case (
            AuthorizationPolicySpec(target_refs=refs, target_ref=single)
            | RequestAuthenticationSpec(target_refs=refs, target_ref=single)
            | TelemetrySpec(target_refs=refs, target_ref=single)
            | WasmPluginSpec(target_refs=refs, target_ref=single)
        ):
            found = gateway_references(refs, single)
        case EnvoyFilterSpec(target_refs=refs) | TrafficExtensionSpec(target_refs=refs):
            found = gateway_references(refs)
        case _:
            return
    for path, name in found:
        yield ("spec", *path), name


def _ports(policy: TrafficPolicy | None, host: str, path: FieldPath) -> Iterator[_Named]:
    for at in range(len(policy.port_level_settings) if policy is not None else 0):
        yield Sort.PORT, host, (*path, "portLevelSettings", at, "port", "number")


def _secrets(spec: GatewaySpec) -> Iterator[_Named]:
    for at, server in enumerate(spec.servers):
        for name in server.tls.credentials if server.tls is not None else ():
            for field in ("credentialName", "credentialNames", "caCertCredentialName"):
                yield Sort.SECRET, name, ("spec", "servers", at, "tls", field)


class Undecided:
    """The names that may be defined in what could not be read."""

    def __init__(self, objects: Iterable[ConfigObject], unreadable: str, domain: str) -> None:
        """unreadable: the texts of which nothing was read. domain: the mesh's."""
        self._unreadable = unreadable
        self._names = {
            found for each in objects if each.unread for found in _undecided(each, domain)
        }

    def has(self, found: Reference) -> bool:
        """Return whether it can't be said that a name is not defined."""
        return (
            not self._names.isdisjoint({(found.sort, ""), (found.sort, found.name)})
            or found.name.partition(".")[0].rpartition("/")[2] in self._unreadable
        )


_NAME: FieldPath = ("metadata", "name")
_KNOWN_BY_NAME: Mapping[type, Sort] = {
    GatewaySpec: Sort.GATEWAY,
    KubernetesGatewaySpec: Sort.KUBERNETES_GATEWAY,
    SecretFields: Sort.SECRET,
}


def _undecided(item: ConfigObject, domain: str) -> Iterator[tuple[Sort, str]]:
    """Yield what an object may define beside what was read of it; an empty name: any."""
    match item.spec:
        case ServiceEntrySpec(hosts=hosts):
            if touches(("spec", "hosts"), item.unread):
                yield from ((sort, "") for sort in (Sort.SERVICE, Sort.PORT, Sort.SUBSET))
            if touches(("spec", "ports"), item.unread):
                yield from ((Sort.PORT, host) for host in hosts)
        case KubernetesServiceSpec():
            if touches(_NAME, item.unread):
                yield Sort.SERVICE, ""
            if touches(("spec", "ports"), item.unread):
                yield Sort.PORT, ""
        case DestinationRuleSpec(host=host):
            if touches(("spec", "host"), item.unread):
                yield Sort.SUBSET, ""
            if touches(("spec", "subsets"), item.unread):
                yield Sort.SUBSET, full_host(host, item.namespace, domain)
        case GatewaySpec() | KubernetesGatewaySpec() | SecretFields():
            if touches(_NAME, item.unread):
                yield _KNOWN_BY_NAME[type(item.spec)], ""
        case _:
            pass


def missing_subsets(model: MeshModel) -> Iterator[Problem]:
    """Yield the destinations whose subset no rule has, whether there is a service or not."""
    rules, _ = RuleFindings().after(model, NO_HOSTS)
    for item in model.rules.of_kind(VIRTUAL_SERVICE):
        if not is_translated(item):
            yield from missing_destinations(
                item,
                lambda _: True,
                rules.have_subset,
                domain=model.domain,
                ports_of=lambda _: None,
            )
