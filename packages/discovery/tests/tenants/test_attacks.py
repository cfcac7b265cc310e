"""What a tenant changes for other namespaces: by Istio's rules, and where namespaces are strict.

Each attack is what a tenant writes in its own namespace. By Istio's rules some of them reach
others; in a strict mesh none does, and each of those is reported at its object.
"""

from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from headless_services import HTTP, TCP
from tenants import EVIL, PAY, VIP, Teams

NETWORKING = "networking.istio.io/v1"
SECURITY = "security.istio.io/v1"
API = "gateway.networking.k8s.io/v1"
OWN, OTHER = f"own.{EVIL}", f"aaa.{EVIL}"
"""Hosts of the tenant's own. Names with an a come first among those of one age."""


def written(version: str, kind: str, spec: str, *, name: str = "aaa", more: str = "") -> str:
    return (
        f"apiVersion: {version}\nkind: {kind}\n"
        f"metadata: {{name: {name}, namespace: evil{more}}}\nspec: {dedent(spec)}\n"
    )


def virtual_service(*hosts: str, more: str = "", route: str = "") -> str:
    listed = ", ".join(f'"{each}"' for each in hosts)
    to = f"route: [{{destination: {{host: {OWN}, port: {{number: 80}}}}}}]"
    routes = route.replace("ROUTE", to) or f"http: [{{{to}}}]"
    return written(NETWORKING, "VirtualService", f"{{hosts: [{listed}], {more}{routes}}}")


def entry(*hosts: str, port: str = "number: 80, name: http, protocol: HTTP", more: str = "") -> str:
    listed = ", ".join(f'"{each}"' for each in hosts)
    spec = (
        f"{{hosts: [{listed}], location: MESH_INTERNAL, resolution: STATIC, ports: [{{{port}}}], "
        f"endpoints: [{{address: 10.66.6.6}}]{more}}}"
    )
    return written(NETWORKING, "ServiceEntry", spec)


def destination_rule(host: str) -> str:
    spec = f'{{host: "{host}", trafficPolicy: {{tls: {{mode: DISABLE}}}}, exportTo: ["*"]}}'
    return written(NETWORKING, "DestinationRule", spec)


def gateway(port: int, protocol: str, host: str, *, tls: str = "") -> str:
    server = f"{{port: {{number: {port}, name: x, protocol: {protocol}}}, hosts: [{host}]{tls}}}"
    spec = f"{{selector: {{istio: ingress}}, servers: [{server}]}}"
    return written(NETWORKING, "Gateway", spec)


def http_route(parent: str, *, hostnames: str = "") -> str:
    hosts = f"hostnames: [{hostnames}], " if hostnames else ""
    return written(API, "HTTPRoute", f"{{parentRefs: [{{{parent}}}], {hosts}rules: [{{}}]}}")


TCP_PORT = f"number: {TCP}, name: tcp-x, protocol: TCP"
SLICE = (
    "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
    "metadata: {name: aaa-1, namespace: evil, labels: {kubernetes.io/service-name: SERVICE}}\n"
    f"addressType: IPv4\nports: [{{name: tcp-db, port: {TCP}}}]\n"
    "endpoints: [{addresses: [ADDRESS]}]\n"
)
HEADLESS = (
    "apiVersion: v1\nkind: Service\nmetadata: {name: aaa, namespace: evil}\n"
    f"spec: {{clusterIP: None, ports: [{{name: tcp-db, port: {TCP}}}]}}\n"
)


class Attack(NamedTuple):
    """What a tenant writes, and what becomes of it.

    by_istio: whether others are touched by Istio's rules. message: a part of that in a strict
    mesh; None: nothing is refused there.
    """

    documents: tuple[str, ...]
    by_istio: bool
    message: str | None = None


_FOREIGN = " is no host of namespace evil"
ATTACKS = {
    # Routes.
    "a VirtualService of another's service": Attack(
        (virtual_service(PAY),), True, f'"{PAY}"{_FOREIGN}'
    ),
    "a VirtualService of the hosts of another namespace": Attack(
        (virtual_service("*.a.svc.cluster.local"),), True, _FOREIGN
    ),
    "a VirtualService of a short name of another's service": Attack(
        (virtual_service("pay.a"),), True, f'"pay.a"{_FOREIGN}'
    ),
    "a VirtualService of an own host and of another's": Attack(
        (virtual_service(OWN, PAY),), True, f'"{PAY}"{_FOREIGN}'
    ),
    "a VirtualService of another's service, exported to its clients by name": Attack(
        (virtual_service(PAY, more="exportTo: [b], "),), True, f'"{PAY}"{_FOREIGN}'
    ),
    "a VirtualService of another's connections": Attack(
        (virtual_service(PAY, route=f"tcp: [{{match: [{{port: {TCP}}}], ROUTE}}]"),),
        True,
        _FOREIGN,
    ),
    "a VirtualService of another's names in TLS": Attack(
        (virtual_service(PAY, route=f"tls: [{{match: [{{sniHosts: [{PAY}]}}], ROUTE}}]"),),
        True,
        _FOREIGN,
    ),
    "a VirtualService that delegates to another's": Attack(
        (virtual_service(OWN, route="http: [{delegate: {name: shop, namespace: a}}]"),),
        False,
    ),
    # Rules for connections.
    "a DestinationRule of another's service": Attack((destination_rule(PAY),), False),
    "a DestinationRule of every service": Attack((destination_rule("*.local"),), False),
    # Services.
    "a ServiceEntry of another's service": Attack((entry(PAY),), False, _FOREIGN),
    "a ServiceEntry of a service that another does not have yet": Attack(
        (entry("new.a.svc.cluster.local"),), True, _FOREIGN
    ),
    "a ServiceEntry of a short name of another's service": Attack(
        (entry("pay.a", port=f"number: {HTTP}, name: http, protocol: HTTP"),), True, _FOREIGN
    ),
    "a ServiceEntry of a host outside": Attack(
        (entry("api.bank.example"),), True, f'"api.bank.example"{_FOREIGN}'
    ),
    "a ServiceEntry of a host outside, exported to its clients by name": Attack(
        (entry("api.bank.example", more=", exportTo: [b]"),), True, _FOREIGN
    ),
    "a ServiceEntry of all hosts of a domain": Attack((entry("*.bank.example"),), True, _FOREIGN),
    "a ServiceEntry at another's address": Attack(
        (entry(OTHER, port=TCP_PORT, more=f", addresses: [{VIP}]"),), True, f"{VIP} is no address"
    ),
    "a ServiceEntry at a range of addresses": Attack(
        (entry(OTHER, port=TCP_PORT, more=", addresses: [10.0.0.0/8]"),), True, "is no address"
    ),
    "a ServiceEntry at a port of every address": Attack(
        (entry(OTHER, port=TCP_PORT),), True, "TCP names no host"
    ),
    "a headless service with another's address": Attack(
        (HEADLESS, SLICE.replace("SERVICE", "aaa").replace("ADDRESS", "10.0.0.5")),
        True,
        "10.0.0.5 is the address of no pod",
    ),
    "endpoints of another's service": Attack(
        (SLICE.replace("SERVICE", "pay").replace("ADDRESS", "10.66.6.6"),), False
    ),
    "a WorkloadEntry with the labels of another's workloads": Attack(
        (written(NETWORKING, "WorkloadEntry", "{address: 10.66.6.6, labels: {app: pay}}"),),
        False,
    ),
    "a WorkloadEntry with the address of another's workload": Attack(
        (
            entry(OTHER).replace(
                "endpoints: [{address: 10.66.6.6}]", "workloadSelector: {labels: {app: x}}"
            ),
            written(NETWORKING, "WorkloadEntry", "{address: 10.0.0.5, labels: {app: x}}"),
        ),
        False,
    ),
    "a Gateway of the Gateway API for the shared router's service": Attack(
        (
            written(
                API,
                "Gateway",
                "{gatewayClassName: istio, listeners: [{name: x, port: 8443, protocol: HTTP}], "
                "addresses: [{type: Hostname, value: ingress.infra.svc.cluster.local}]}",
            ),
        ),
        True,
        "routers of its own namespace",
    ),
    # The service that decides on requests to others.
    "a ServiceEntry of the host of an authorizer": Attack(
        (entry("authz.infra.svc.cluster.local", port="number: 8000, name: http, protocol: HTTP"),),
        True,
        _FOREIGN,
    ),
    "a ServiceEntry of the host of a logger, which no namespace has": Attack(
        (entry("logs.example"),), True, _FOREIGN
    ),
    "a ServiceEntry of the host of a tracer, which no namespace has": Attack(
        (entry("spans.example"),), True, _FOREIGN
    ),
    # Gateways.
    "a Gateway for the shared router": Attack(
        (gateway(8443, "HTTP", "'*'"),), True, "routers of its own namespace"
    ),
    "a Gateway for another's host at the shared router": Attack(
        (
            gateway(80, "HTTP", "shop.example"),
            virtual_service("shop.example", more="gateways: [aaa], "),
        ),
        True,
        "routers of its own namespace",
    ),
    "a VirtualService at the shared Gateway, of a host that it gives to any": Attack(
        (virtual_service("x.open.example", more="gateways: [infra/shared], "),),
        True,
        f'"x.open.example"{_FOREIGN}',
    ),
    "a VirtualService at the shared Gateway, of a host that it gives to another": Attack(
        (virtual_service("shop.example", more="gateways: [infra/shared], "),),
        False,
        "nothing comes by it",
    ),
    "a VirtualService at the shared Gateway, of TLS that it passes on": Attack(
        (
            virtual_service(
                "x.open.example",
                more="gateways: [infra/shared], ",
                route="tls: [{match: [{sniHosts: [x.open.example]}], ROUTE}]",
            ),
        ),
        True,
        f'"x.open.example"{_FOREIGN}',
    ),
    "an HTTPRoute at a listener for its own namespace": Attack(
        (http_route("name: api, namespace: infra, sectionName: own"),), False
    ),
    "an HTTPRoute at a listener for all, of a host that is no namespace's": Attack(
        (http_route("name: api, namespace: infra, sectionName: all", hostnames="x.open.example"),),
        True,
        f'"x.open.example"{_FOREIGN}',
    ),
    "an HTTPRoute of another's service": Attack(
        (http_route("kind: Service, group: '', name: pay, namespace: a"),), False
    ),
    "a ReferenceGrant for what is another's": Attack(
        (
            written(
                "gateway.networking.k8s.io/v1beta1",
                "ReferenceGrant",
                "{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: evil}], "
                "to: [{group: '', kind: Service}]}",
            ),
        ),
        False,
    ),
    # What is for the workloads of the own namespace alone.
    "an AuthorizationPolicy": Attack((written(SECURITY, "AuthorizationPolicy", "{}"),), False),
    "an AuthorizationPolicy for the labels of the shared router": Attack(
        (written(SECURITY, "AuthorizationPolicy", "{selector: {matchLabels: {istio: ingress}}}"),),
        False,
    ),
    "an AuthorizationPolicy for another's Gateway by its name": Attack(
        (
            written(
                SECURITY,
                "AuthorizationPolicy",
                "{targetRefs: [{kind: Gateway, group: gateway.networking.k8s.io, name: api}]}",
            ),
        ),
        False,
    ),
    "a policy that asks the authorizer of others": Attack(
        (
            written(
                SECURITY,
                "AuthorizationPolicy",
                "{action: CUSTOM, provider: {name: authz}, rules: [{}]}",
            ),
        ),
        False,
    ),
    "an EnvoyFilter for the labels of the shared router": Attack(
        (
            written(
                "networking.istio.io/v1alpha3",
                "EnvoyFilter",
                "{workloadSelector: {labels: {istio: ingress}}, configPatches: [{applyTo: CLUSTER, "
                "match: {context: GATEWAY}, "
                "patch: {operation: MERGE, value: {connect_timeout: 1s}}}]}",
            ),
        ),
        False,
    ),
    "a PeerAuthentication": Attack(
        (written(SECURITY, "PeerAuthentication", "{mtls: {mode: DISABLE}}"),), False
    ),
    "a RequestAuthentication": Attack(
        (
            written(
                SECURITY,
                "RequestAuthentication",
                "{jwtRules: [{issuer: x, jwksUri: 'https://x.example/keys'}]}",
            ),
        ),
        False,
    ),
    "a Telemetry": Attack(
        (written("telemetry.istio.io/v1", "Telemetry", "{accessLogging: [{disabled: true}]}"),),
        False,
    ),
    "a ProxyConfig": Attack(
        (written("networking.istio.io/v1beta1", "ProxyConfig", "{concurrency: 7}"),), False
    ),
    "a ProxyConfig for the labels of the shared router": Attack(
        (
            written(
                "networking.istio.io/v1beta1",
                "ProxyConfig",
                "{selector: {matchLabels: {istio: ingress}}, concurrency: 7}",
            ),
        ),
        False,
    ),
    "a Sidecar": Attack((written(NETWORKING, "Sidecar", "{egress: [{hosts: ['~/*']}]}"),), False),
    "an EnvoyFilter": Attack(
        (
            written(
                "networking.istio.io/v1alpha3",
                "EnvoyFilter",
                "{configPatches: [{applyTo: CLUSTER, match: {context: ANY}, "
                "patch: {operation: MERGE, value: {connect_timeout: 1s}}}]}",
            ),
        ),
        False,
    ),
}


@pytest.fixture
def teams(tmp_path: Path) -> Teams:
    return Teams(tmp_path)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_by_istios_rules_others_are_touched_or_not(attack: Attack, teams: Teams) -> None:
    before = teams.model(strict=False)

    touched = teams.touched(before, teams.model(*attack.documents, strict=False))

    assert bool(touched) is attack.by_istio, touched


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_in_a_strict_mesh_no_other_is_touched_and_what_is_refused_is_reported(
    attack: Attack, teams: Teams
) -> None:
    before, after = teams.model(strict=True), teams.model(*attack.documents, strict=True)

    assert teams.touched(before, after) == []
    messages = [each.message for each in teams.reported(after)]
    assert attack.message is not None or not attack.by_istio
    if attack.message is not None:
        assert any(attack.message in each for each in messages), messages
