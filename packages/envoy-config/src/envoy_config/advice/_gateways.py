"""Finds Gateways whose ports, certificates or claims do not go with what is around them."""

from collections.abc import Iterator

from envoy_config.advice._mesh import Mesh
from istio_config import ConfigObject
from istio_config.kinds.gateway import GATEWAY, GatewaySpec, Server
from istio_config.kinds.kubernetes import KubernetesServiceSpec, TransportProtocol
from istio_config.kinds.request_authentication import RequestAuthenticationSpec
from istio_config.kinds.virtual_service import VirtualServiceSpec, names_claim
from mesh_configfile import FieldPath, Problem, suggestion
from mesh_model import Gateway, Labels


def unserved_ports(mesh: Mesh) -> Iterator[Problem]:
    """Yield the ports of servers that no Service of the Gateway's workloads leads to.

    Where no Service selects them, they are reached in another way, and nothing is said.
    """
    services = [
        (each.namespace, each.spec)
        for each in mesh.objects
        if isinstance(each.spec, KubernetesServiceSpec) and each.spec.selector
    ]
    known: dict[int, set[int]] = {}
    for item, gateway in _gateways(mesh):
        routers = mesh.routers(gateway)
        ports = known.setdefault(id(routers), set())
        if not ports and routers:
            ports.update(
                number
                for namespace, spec in services
                if any(
                    namespace == of_router and (spec.selector or {}).items() <= dict(labels).items()
                    for of_router, labels in routers
                )
                for number in _ports_of(spec)
            )
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


def unchecked_claims(mesh: Mesh) -> Iterator[Problem]:
    """Yield routes by claims at Gateways to whose workloads no RequestAuthentication applies."""
    root = mesh.model.mesh_config.root_namespace
    rules = [
        (each.namespace, each.spec)
        for each in mesh.objects
        if isinstance(each.spec, RequestAuthenticationSpec)
    ]

    def is_checked(namespace: str, labels: Labels) -> bool:
        return any(
            of_rule in (root, namespace)
            and (bool(spec.selection.gateways) or _selects(spec, labels))
            for of_rule, spec in rules
        )

    for item in mesh.objects:
        claims = list(_claims(item))
        for _, gateway in mesh.gateways(item) if claims else ():
            unchecked = [each for each in mesh.routers(gateway) if not is_checked(*each)]
            if not unchecked:
                continue
            for path, name in claims:
                yield item.problem(
                    path,
                    f'"{name}" is of a token that is not looked at: no RequestAuthentication '
                    f"applies to the workloads of Gateway {gateway.key} in {unchecked[0][0]}, so "
                    "no request matches; write one for them there",
                    "IST0149",
                )


def _selects(spec: RequestAuthenticationSpec, labels: Labels) -> bool:
    return spec.selection.labels.items() <= dict(labels).items()


def _claims(item: ConfigObject) -> Iterator[tuple[FieldPath, str]]:
    if not isinstance(item.spec, VirtualServiceSpec):
        return
    for index, route in enumerate(item.spec.http):
        for at, match in enumerate(route.match):
            for field, given in (
                ("headers", match.headers),
                ("withoutHeaders", match.without_headers),
            ):
                for name in filter(names_claim, given):
                    yield ("spec", "http", index, "match", at, field, name), name


def _gateways(mesh: Mesh) -> Iterator[tuple[ConfigObject, Gateway]]:
    """Yield the Gateways that someone wrote, the oldest first."""
    own = {each.key: each for each in mesh.objects if each.kind == GATEWAY.name}
    for gateway in mesh.model.gateways.gateways:
        item = mesh.model.gateways.object_of(gateway)
        if item.key in own and isinstance(item.spec, GatewaySpec):
            yield item, gateway
