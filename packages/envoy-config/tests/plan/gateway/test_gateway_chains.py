"""Which connections each server of a gateway takes, and where they go."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from envoy_config.plan.gateway._bindings import bound_hosts
from envoy_config.plan.gateway._chains import ConnectionSources, ListenerChains, plan_chains
from envoy_config.plan.gateway._servers import plan_router
from envoy_config.plan.l4._targets import Targets
from istio_config.kinds.gateway import GatewaySpec, parse_server_host
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_model import Gateway, Port, Service


@dataclass(frozen=True)
class Bound:
    """A VirtualService of the model, with what chains need of it."""

    spec: VirtualServiceSpec
    name: str = "vs"
    namespace: str = "shop"
    own: frozenset[str] | None = None
    """The hosts that are its namespace's; None: all."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.spec.hosts

    @property
    def own_hosts(self) -> frozenset[str]:
        return frozenset(self.hosts) if self.own is None else self.own


def virtual_service(name: str = "vs", namespace: str = "shop", **spec: Any) -> Bound:
    return Bound(msgspec.convert(spec, VirtualServiceSpec), name, namespace)


def service(host: str, *, external: bool = False, namespace: str = "shop") -> Service:
    return Service(
        host=host,
        namespace=namespace,
        name=host.partition(".")[0],
        ports=(
            Port(number=80, name="http", protocol=Protocol.HTTP, target=80),
            Port(number=53, name="dns", protocol=Protocol.UDP, target=53),
        ),
        resolution=Resolution.STATIC,
        external=external,
    )


def chains(
    servers: list[dict[str, Any]],
    virtual_services: Sequence[Bound] = (),
    services: Sequence[Service] = (),
    subsets: Sequence[str] = (),
) -> ListenerChains:
    gateway = Gateway(
        namespace="shop",
        name="gw",
        spec=msgspec.convert({"servers": servers}, GatewaySpec),
        own_namespace_only=False,
    )
    (listener,) = plan_router([gateway], target_ports={}).listeners
    known = {each.host: each for each in services}
    sources = ConnectionSources(
        bound=lambda key: virtual_services if key == "shop/gw" else (),
        services=known,
        targets=Targets(known),
        subsets=lambda _service: subsets,
    )
    return plan_chains(listener, sources)


def server(protocol: str, *hosts: str, name: str = "", **tls: Any) -> dict[str, Any]:
    port = {"number": 443, "name": name or protocol.lower(), "protocol": protocol}
    return {"port": port, "hosts": list(hosts), **({"tls": tls} if tls else {})}


def to(host: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"destination": {"host": host, **fields}}]


def summary(found: ListenerChains) -> list[tuple[tuple[str, ...], str]]:
    return [
        (each.server_names, each.target.clusters[0].name if each.target else each.server.route)
        for each in found.chains
    ]


def test_plain_http_servers_have_one_chain_together() -> None:
    found = chains([server("HTTP", "a.example"), server("GRPC", "b.example")])
    assert summary(found) == [((), "http.443")]


def test_https_servers_have_a_chain_each_by_their_hosts() -> None:
    secret = {"mode": "SIMPLE", "credentialName": "x"}
    found = chains(
        [
            server("HTTPS", "shop/b.example", "a.example", name="one", **secret),
            server("HTTPS", "*", name="two", **secret),
        ]
    )
    assert summary(found) == [
        (("a.example", "b.example"), "https.443.one.gw.shop"),
        ((), "https.443.two.gw.shop"),
    ]


PASSTHROUGH = {"mode": "PASSTHROUGH"}


def test_passed_through_tls_goes_by_the_sni_names_of_tls_routes() -> None:
    found = chains(
        [server("TLS", "*.example", **PASSTHROUGH)],
        [
            virtual_service(
                hosts=["a.example", "b.example"],
                tls=[
                    {"match": [{"sniHosts": ["A.example"]}], "route": to("s", port={"number": 9})},
                    {
                        "match": [
                            {"sniHosts": ["b.example"], "port": 443, "gateways": ["shop/gw"]},
                            {"sniHosts": ["c.example"], "port": 444},
                            {"sniHosts": ["d.example"], "gateways": ["shop/other"]},
                        ],
                        "route": to("t"),
                    },
                ],
            ),
            virtual_service("unbound", hosts=["other"], tls=[{"match": [{"sniHosts": ["x"]}]}]),
        ],
    )
    assert summary(found) == [
        (("a.example",), "outbound|9||s"),
        (("b.example",), "outbound|443||t"),
    ]
    assert found.left_out == ()


def test_sni_names_that_are_taken_are_left_out_and_reported() -> None:
    def routes(name: str, *sni: str) -> Bound:
        return virtual_service(
            name,
            hosts=["*.example"],
            tls=[{"match": [{"sniHosts": list(sni)}], "route": to(name)}],
        )

    found = chains(
        [
            server("TLS", "*.example", **PASSTHROUGH),
            server("HTTPS", "ended.example", mode="SIMPLE", credentialName="x"),
        ],
        [
            routes("old", "a.example"),
            routes("new", "b.example", "a.example"),
            routes("late", "ended.example"),
            routes("rest", "*"),
        ],
    )
    assert [names for names, _ in summary(found)] == [
        ("a.example",),
        ("*.example",),
        ("ended.example",),
    ]
    assert [each.reason for each in found.left_out] == [
        (
            "a TLS route of VirtualService shop/new: its SNI name a.example on port 443 is that of "
            "servers[0] of Gateway shop/gw"
        ),
        (
            "a TLS route of VirtualService shop/late: its SNI name ended.example on port 443 is "
            "that of servers[1] of Gateway shop/gw"
        ),
    ]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (server("TCP", "*"), ()),
        (server("MONGO", "a.example"), ()),
        (server("TLS", "a.example", mode="SIMPLE", credentialName="x"), ("a.example",)),
        (server("TLS", "*", mode="ISTIO_MUTUAL"), ()),
    ],
)
def test_connections_go_by_the_first_tcp_route_that_applies(
    given: dict[str, Any], names: tuple[str, ...]
) -> None:
    found = chains(
        [given],
        [
            virtual_service("other", hosts=["b.other"], tcp=[{"match": [{"port": 1}]}]),
            virtual_service(
                hosts=["a.example"],
                tcp=[
                    {"match": [{"port": 444}], "route": to("s")},
                    {
                        "match": [{"port": 1}, {"port": 443, "sourceLabels": {"x": "y"}}],
                        "route": to("t", subset="v1"),
                    },
                    {"route": to("u")},
                ],
            ),
            virtual_service(hosts=["a.example"], tcp=[{"route": to("v")}]),
        ],
    )
    assert summary(found) == [(names, "outbound|443|v1|t")]


def test_server_of_connections_without_routes_has_no_chain() -> None:
    assert chains([server("TCP", "*")]).chains == ()


def test_tls_of_the_mesh_is_passed_to_services_by_names_of_their_clusters() -> None:
    found = chains(
        [server("TLS", "*.local", "shop/b.other", mode="AUTO_PASSTHROUGH")],
        services=[
            service("s.local"),
            service("b.other", namespace="elsewhere"),
            service("outside.local", external=True),
            service("*.wild.local"),
        ],
        subsets=["v1"],
    )
    assert summary(found) == [
        (("outbound_.80_._.s.local",), "outbound_.80_._.s.local"),
        (("outbound_.80_.v1_.s.local",), "outbound_.80_.v1_.s.local"),
    ]
    assert all(each.from_mesh for each in found.chains)


@pytest.mark.parametrize(
    ("server_hosts", "hosts", "both"),
    [
        (["a.example"], ["a.example"], ["a.example"]),
        (["*.example"], ["a.example", "b.other"], ["a.example"]),
        (["a.example", "b.example"], ["*.example"], ["a.example", "b.example"]),
        (["*"], ["*.example"], ["*.example"]),
        (["./a.example"], ["a.example"], []),
        (["one/a.example", "two/*"], ["a.example"], ["a.example"]),
        (["two/a.example", "*.example"], ["a.example"], ["a.example"]),
        (["b.example"], ["a.example"], []),
    ],
)
def test_server_serves_the_hosts_that_it_and_a_virtual_service_both_have(
    server_hosts: list[str], hosts: list[str], both: list[str]
) -> None:
    parsed = [parse_server_host(each, "shop") for each in server_hosts]
    found = virtual_service(namespace="two", hosts=hosts)
    assert list(bound_hosts(parsed, found, gateway_namespace="shop")) == both


@pytest.mark.parametrize(
    ("server_host", "namespace", "governed", "both"),
    [
        ("*.example", "shop", [], ["a.example"]),
        ("*.example", "two", [], []),
        ("*/*.example", "two", [], []),
        ("*.example", "two", ["a.example"], ["a.example"]),
        ("*.example", "two", ["b.example"], []),
        ("two/*.example", "two", [], ["a.example"]),
        ("two/*.example", "three", ["a.example"], []),
    ],
)
def test_a_host_given_to_any_is_for_the_namespace_whose_it_is(
    server_host: str, namespace: str, governed: list[str], both: list[str]
) -> None:
    found = replace(
        virtual_service(namespace=namespace, hosts=["a.example"]), own=frozenset(governed)
    )
    parsed = [parse_server_host(server_host, "shop")]
    assert list(bound_hosts(parsed, found, gateway_namespace="shop")) == both


def test_a_tls_route_has_the_names_that_its_server_gives_and_no_others() -> None:
    route = virtual_service(
        hosts=["a.example", "b.example"],
        tls=[{"match": [{"sniHosts": ["b.example"]}], "route": to("s")}],
    )
    assert summary(chains([server("TLS", "a.example", **PASSTHROUGH)], [route])) == []
