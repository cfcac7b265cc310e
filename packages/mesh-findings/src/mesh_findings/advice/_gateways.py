"""Finds Gateways whose ports, certificates or claims do not go with what is around them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway import GATEWAY, Server
from istio_config.kinds.kubernetes import (
    KUBERNETES_SERVICE,
    KubernetesServiceSpec,
    TransportProtocol,
)
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.virtual_service import VirtualServiceSpec, names_claim
from mesh_configfile import FieldPath, Problem, suggestion
from mesh_findings.advice._mesh import Mesh
from mesh_model import Gateway, Labels


def unserved_ports(mesh: Mesh) -> Iterator[Problem]:
    """Yield the ports of servers that no Service of the Gateway's workloads leads to.

    Where no Service selects them, they are reached in another way, and nothing is said.
    """
    services = [
        _Selecting(each.namespace, spec.selector, frozenset(_ports_of(spec)))
        for each, spec in mesh.of_kind(KUBERNETES_SERVICE)
        if spec.selector
    ]
    known: dict[object, AbstractSet[int]] = {}
    for item, gateway in _gateways(mesh):
        if gateway.services or not gateway.spec.selector:
            continue
        key = (
            frozenset(gateway.spec.selector.items()),
            gateway.own_namespace_only and item.namespace,
        )
        if key not in known:
            leading = _leading(services, gateway, mesh.routers(gateway))
            known[key] = frozenset[int]().union(*(each.ports for each in leading))
        ports = known[key]
        for index, server in enumerate(gateway.spec.servers):
            if ports and server.port.number not in ports:
                listed = ", ".join(map(str, sorted(ports)))
                yield item.problem(
                    ("spec", "servers", index, "port", "number"),
                    f"no Service of the workloads that this Gateway selects has the port "
                    f"{server.port.number}; they have {listed}: nothing comes by a Service; add "
                    "the port there, or use one of these",
                    "IST0162",
                )


class _Selecting(NamedTuple):
    """A Service that selects pods of its namespace, and the ports by which it leads to them."""

    namespace: str
    selector: Mapping[str, str]
    ports: AbstractSet[int]


def _leading(
    services: Iterable[_Selecting], gateway: Gateway, routers: Sequence[tuple[str, Labels]]
) -> list[_Selecting]:
    """Return the Services that lead to a Gateway's routers, or may.

    Where no router is known, the pods of a Service that asks for all labels of the Gateway's
    selector are routers for sure, and those of one that asks for no other value may be.
    """
    if routers:
        return [
            each
            for each in services
            if any(
                each.namespace == namespace and each.selector.items() <= dict(labels).items()
                for namespace, labels in routers
            )
        ]
    wanted = gateway.spec.selector
    may_lead = [
        each
        for each in services
        if _go_together(each.selector, wanted)
        and (each.namespace == gateway.namespace or not gateway.own_namespace_only)
    ]
    return may_lead if any(wanted.items() <= each.selector.items() for each in may_lead) else []


def _go_together(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether a workload can have the labels of both."""
    return all(other.get(key, value) == value for key, value in one.items())


def unselecting_gateways(mesh: Mesh) -> Iterator[Problem]:
    """Yield Gateways that no known workload has the labels of, though some have others of its keys.

    Where no workload has the keys, the routers may be elsewhere, and nothing is said.
    """
    values: dict[str, set[str]] = {}
    for key, value in mesh.by_label:
        values.setdefault(key, set()).add(value)
    for item, gateway in _gateways(mesh):
        selector = gateway.spec.selector
        if gateway.services or not selector or not selector.keys() <= values.keys():
            continue
        if not mesh.routers(gateway):
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
            key, value = min(selector.items())
            near = suggestion(value, sorted(values[key]), listed=False)
            yield item.problem(
                ("spec", "selector"),
                f"no workload that is known has the labels {wanted}: no router opens these ports"
                f"{near}",
                "IST0101",
            )


def _ports_of(spec: KubernetesServiceSpec) -> Iterator[int]:
    """Yield the ports by which a Service leads to its pods, on both sides."""
    for port in spec.ports or ():
        if port.protocol is TransportProtocol.TCP:
            yield port.port
            if isinstance(port.target_port, int) and port.target_port:
                yield port.target_port


def shared_certificates(mesh: Mesh) -> Iterator[Problem]:
    """Yield the certificates that servers of two Gateways show for different hosts.

    A browser sends requests for all hosts of a certificate on one connection, and the filter chain
    of that connection knows the hosts of one Gateway alone.
    """
    seen: dict[tuple[str, int], list[tuple[Gateway, Server]]] = {}
    for item, gateway in _gateways(mesh):
        for index, server in enumerate(gateway.spec.servers):
            for path, name in _certificates(server):
                earlier = seen.setdefault((name, server.port.number), [])
                for other, rival in earlier:
                    if (
                        other is not gateway
                        and _share_routers(gateway, other)
                        and set(rival.hosts) != set(server.hosts)
                    ):
                        yield item.problem(
                            ("spec", "servers", index, "tls", *path),
                            f'Gateway {other.key} shows "{name}" for other hosts: a client that '
                            "uses one connection for both (HTTP/2) is answered with 404; have one "
                            "Gateway for all hosts of a certificate",
                            "IST0138",
                        )
                        break
                earlier.append((gateway, server))


def _certificates(server: Server) -> Iterator[tuple[FieldPath, str]]:
    tls = server.tls
    if tls is None or not tls.mode.terminates:
        return
    if tls.credentials:
        field = "credentialNames" if tls.credential_names else "credentialName"
        yield from (((field,), each) for each in tls.credentials)
    elif tls.server_certificate:
        yield ("serverCertificate",), tls.server_certificate


def _share_routers(one: Gateway, other: Gateway) -> bool:
    """Return whether a router of one Gateway is one of the other, too."""
    if one.services or other.services:
        return one.services == other.services
    if (one.own_namespace_only or other.own_namespace_only) and one.namespace != other.namespace:
        return False
    labels, others = one.spec.selector.items(), other.spec.selector.items()
    return labels <= others or others <= labels


def unchecked_claims(mesh: Mesh, item: ConfigObject, spec: VirtualServiceSpec) -> Iterator[Problem]:
    """Yield routes by claims at Gateways to whose workloads no RequestAuthentication applies."""
    claims = list(_claims(spec))
    for gateway in mesh.gateways(spec, item.namespace) if claims else ():
        if (unchecked := _unchecked(gateway, mesh)) is None:
            continue
        for path, name in claims:
            yield item.problem(
                path,
                f'"{name}" is of a token that is not looked at: no RequestAuthentication '
                f"{unchecked}, so no request matches; write one for them there",
                "IST0149",
            )


def _unchecked(gateway: Gateway, mesh: Mesh) -> str | None:
    """Return which routers of a Gateway no RequestAuthentication applies to, for a sentence.

    Where no router is known, one for any that the Gateway may select counts as theirs.
    """
    rules = [
        (each.namespace, spec.selection)
        for each, spec in mesh.of_kind(REQUEST_AUTHENTICATION)
        if not spec.selection.is_for_waypoints
    ]
    root = mesh.model.mesh_config.root_namespace
    routers = mesh.routers(gateway)
    for namespace, labels in routers:
        if not any(
            of_rule in (root, namespace)
            and (selection.gateways or selection.labels.items() <= dict(labels).items())
            for of_rule, selection in rules
        ):
            return f"applies to the workloads of Gateway {gateway.key} in {namespace}"
    wanted = {} if gateway.services else gateway.spec.selector
    if routers or any(
        (of_rule in (root, gateway.namespace) or not gateway.own_namespace_only)
        and (selection.gateways or _go_together(selection.labels, wanted))
        for of_rule, selection in rules
    ):
        return None
    return f"can apply to the workloads that Gateway {gateway.key} selects"


def _claims(spec: VirtualServiceSpec) -> Iterator[tuple[FieldPath, str]]:
    for index, route in enumerate(spec.http):
        for at, match in enumerate(route.match):
            for field, given in (
                ("headers", match.headers),
                ("withoutHeaders", match.without_headers),
            ):
                for name in filter(names_claim, given):
                    yield ("spec", "http", index, "match", at, field, name), name


def _gateways(mesh: Mesh) -> Iterator[tuple[ConfigObject, Gateway]]:
    """Yield the Gateways that someone wrote, the oldest first."""
    for item, _ in mesh.of_kind(GATEWAY):
        gateway = mesh.model.gateways.by_key.get(f"{item.namespace}/{item.name}")
        if gateway is not None:
            yield item, gateway
