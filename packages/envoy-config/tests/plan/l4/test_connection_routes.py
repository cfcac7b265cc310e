"""Where VirtualServices send connections: by SNI on TLS ports, by address on others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import pytest
import yaml

from documents import entry
from envoy_config.plan.l4._chains import TcpChain
from envoy_config.plan.l4._routes import ConnectionRoutes, connection_chains
from envoy_config.plan.l4._targets import ConnectionSettings, Targets
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_configfile import Duration
from mesh_model import MeshModel, Service

Build = Callable[..., MeshModel]


@dataclass(frozen=True)
class Routed:
    """A VirtualService of the model."""

    spec: VirtualServiceSpec
    namespace: str = "a"
    name: str = "routes"

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.spec.hosts


def virtual_service(text: str) -> Routed:
    return Routed(msgspec.convert(yaml.safe_load(f"{{{text}}}"), VirtualServiceSpec))


@pytest.fixture
def services(model_of: Build) -> Mapping[str, Service]:
    model = model_of(
        entry(
            "a",
            (
                "hosts: [a.x], ports: [{number: 443, name: tls, protocol: TLS}, "
                "{number: 90, name: tcp, protocol: TCP}]"
            ),
        ),
        entry("b", "hosts: [b.x], ports: [{number: 91, name: tcp, protocol: TCP}]"),
        entry("w", 'hosts: ["*.w.x"], ports: [{number: 443, name: tls, protocol: TLS}]'),
    )
    return {each.host: each for each in model.services}


def shown(chain: TcpChain) -> str:
    matched = ",".join((*chain.server_names, *chain.prefixes)) or "all"
    clusters = "+".join(f"{each.name}*{each.weight}" for each in chain.target.clusters)
    return f"{matched} -> {clusters}"


TO_B = "route: [{destination: {host: b.x}}]"
A_ITSELF = "a.x -> outbound|443||a.x*1"
SOURCES = """\
{sniHosts: [a.x], sourceLabels: {app: other}}, {sniHosts: [z.x], sourceLabels: {app: web}},
{sniHosts: [n.x], sourceNamespace: other}, {sniHosts: [g.x], gateways: [ns/gw]}
"""
WEIGHTS = """\
{destination: {host: b.x}, weight: 3}, {destination: {host: a.x}, weight: 1},
{destination: {host: c.x}, weight: 0}
"""
SUBSET = "route: [{destination: {host: a.x, subset: v1, port: {number: 443}}}]"


@pytest.mark.parametrize(
    ("host", "match", "route", "wanted"),
    [
        ("other.x", "{sniHosts: [a.x]}", TO_B, A_ITSELF),
        ("a.x", "{sniHosts: [a.x, v.a.x]}", TO_B, "a.x,v.a.x -> outbound|91||b.x*0"),
        (
            "a.x",
            "{sniHosts: [A.X], destinationSubnets: [10.1.2.3/8]}",
            SUBSET,
            "a.x,10.0.0.0/8 -> outbound|443|v1|a.x*0",
        ),
        ("a.x", "{port: 444, sniHosts: [a.x]}", TO_B, A_ITSELF),
        ("a.x", SOURCES, TO_B, "z.x -> outbound|91||b.x*0"),
        (
            "a.x",
            "{sniHosts: [a.x]}",
            f"route: [{WEIGHTS}]",
            "a.x -> outbound|91||b.x*3+outbound|443||a.x*1",
        ),
    ],
)
def test_tls_routes_replace_the_chain_of_the_service(
    services: Mapping[str, Service], host: str, match: str, route: str, wanted: str
) -> None:
    routes = f"hosts: [{host}], tls: [{{match: [{match}], {route}}}]"
    found = ConnectionRoutes([virtual_service(routes)], namespace="a", labels=(("app", "web"),))
    service = services["a.x"]
    port = service.port(443)
    assert port is not None

    chains = connection_chains(
        service, port, routes=found, targets=Targets(services), is_shared=True
    )

    assert [shown(each) for each in chains] == [wanted]


@pytest.mark.parametrize(
    ("host", "tcp", "wanted"),
    [
        (
            "a.x",
            f"{{{TO_B}}}, {{route: [{{destination: {{host: c.x}}}}]}}",
            ["all -> outbound|91||b.x*0"],
        ),
        (
            "a.x",
            f"{{match: [{{destinationSubnets: [10.0.0.0/8]}}], {TO_B}}}",
            ["10.0.0.0/8 -> outbound|91||b.x*0", "all -> outbound|90||a.x*1"],
        ),
        ("a.x", f"{{match: [{{port: 91}}], {TO_B}}}", ["all -> outbound|90||a.x*1"]),
        ("'*.x'", f"{{match: [{{port: 90}}], {TO_B}}}", ["all -> outbound|91||b.x*0"]),
        (
            "a.x",
            "{route: [{destination: {host: b.x}}, {destination: {host: a.x}}]}",
            ["all -> BlackHoleCluster*1"],
        ),
    ],
)
def test_tcp_routes_take_connections_until_one_takes_all(
    services: Mapping[str, Service], host: str, tcp: str, wanted: list[str]
) -> None:
    routes = f"hosts: [{host}], tcp: [{tcp}]"
    service = services["a.x"]
    port = service.port(90)
    assert port is not None

    chains = connection_chains(
        service,
        port,
        routes=ConnectionRoutes([virtual_service(routes)], namespace="a"),
        targets=Targets(services),
    )

    assert [shown(each) for each in chains] == wanted


def test_the_first_destination_has_the_settings_of_a_routes_connections(
    services: Mapping[str, Service],
) -> None:
    def settings(service: Service, port: int, subset: str) -> ConnectionSettings:
        return ConnectionSettings(
            idle_timeout=Duration(port), by_source_address=bool(subset) and service.host == "b.x"
        )

    routes = virtual_service(
        "hosts: [a.x], tcp: [{route: [{destination: {host: b.x, subset: v1}, weight: 1}, "
        "{destination: {host: a.x}, weight: 1}]}]"
    )
    service = services["a.x"]
    port = service.port(90)
    assert port is not None

    (chain,) = connection_chains(
        service,
        port,
        routes=ConnectionRoutes([routes], namespace="a"),
        targets=Targets(services, settings),
    )

    assert chain.target.idle_timeout == Duration(91)
    assert chain.target.by_source_address
    assert chain.target.stat_prefix == "routes.a"
    assert chain.origin is not None
    assert chain.origin.name == "routes"


def test_a_wildcard_service_is_recognised_by_a_wildcard_sni(
    services: Mapping[str, Service],
) -> None:
    service = services["*.w.x"]
    (chain,) = connection_chains(
        service,
        service.ports[0],
        routes=ConnectionRoutes(),
        targets=Targets(services),
        is_shared=True,
    )

    assert chain.server_names == ("*.w.x",)
