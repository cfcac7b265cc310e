"""How servers of several Gateways share the ports of a router, and which are left out."""

from typing import Any

import msgspec
import pytest

from envoy_config.plan.gateway._servers import ListenAddress, RouterPlan, plan_router
from istio_config.kinds.gateway import GatewaySpec
from mesh_model import Gateway

EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens in these tests
SECURE = {"mode": "SIMPLE", "credentialName": "x"}


def server(
    protocol: str = "HTTP", *hosts: str, number: int = 80, name: str = "", **fields: Any
) -> dict[str, Any]:
    if "tls" not in fields and protocol in ("HTTPS", "TLS"):
        fields["tls"] = SECURE
    port = {"number": number, "name": name or protocol.lower(), "protocol": protocol}
    return {"port": port, "hosts": list(hosts) or ["*"], **fields}


def gateway(name: str, *servers: dict[str, Any], namespace: str = "shop") -> Gateway:
    spec = msgspec.convert({"servers": list(servers)}, GatewaySpec)
    return Gateway(namespace=namespace, name=name, spec=spec, own_namespace_only=False)


def plan(*gateways: Gateway, **options: Any) -> RouterPlan:
    return plan_router(gateways, **{"target_ports": {}, **options})


def by_address(planned: RouterPlan) -> dict[ListenAddress, list[str]]:
    return {
        each.address: [f"{s.gateway}.{s.index}" for s in each.servers] for each in planned.listeners
    }


def test_plain_http_servers_of_one_port_share_a_listener_and_a_route() -> None:
    planned = plan(
        gateway("a", server("HTTP", "a.example"), server("HTTP2", "b.example")),
        gateway("b", server("GRPC", "a.example")),
    )
    assert by_address(planned) == {ListenAddress(80): ["a.0", "a.1", "b.0"]}
    assert {name: len(each) for name, each in planned.by_route.items()} == {"http.80": 3}
    assert planned.left_out == ()


def test_tls_servers_of_one_port_have_a_route_each() -> None:
    planned = plan(
        gateway(
            "a",
            server("HTTPS", "a.example", number=443, name="one"),
            server("HTTPS", "*.example", number=443, name="two"),
            server("TLS", "c.example", number=443, name="three", tls={"mode": "PASSTHROUGH"}),
        )
    )
    assert by_address(planned) == {ListenAddress(443): ["a.0", "a.1", "a.2"]}
    assert list(planned.by_route) == ["https.443.one.a.shop", "https.443.two.a.shop"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (server("HTTP"), server("HTTPS"), "plain HTTP server"),
        (server("HTTP"), server("TCP"), "the HTTP server"),
        (server("TCP"), server("HTTP"), "the TCP server"),
        (server("TCP"), server("TCP"), "the TCP server"),
        (server("MONGO"), server("TLS"), "plain MONGO server"),
        (server("HTTPS", "a.example"), server("HTTPS", "a.example"), "its host a.example"),
        (server("HTTPS", "shop/a.example"), server("TLS", "./a.example"), "its host shop/a.exam"),
        (server("HTTPS", "one/a.example"), server("HTTPS", "two/a.example"), "its host two/a"),
        (
            server("HTTP", "a.example", tls={"httpsRedirect": True}),
            server("HTTP", "a.example", tls={"httpsRedirect": True}),
            "its host a.example",
        ),
    ],
)
def test_server_that_can_not_share_is_left_out_with_the_reason(
    first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    planned = plan(gateway("old", first), gateway("new", second))
    assert by_address(planned) == {ListenAddress(80): ["old.0"]}
    (left_out,) = planned.left_out
    assert (left_out.namespace, left_out.gateway, left_out.server_index) == ("shop", "new", 0)
    assert reason in left_out.reason
    assert "servers[0] of Gateway shop/old" in left_out.reason


def test_a_server_is_left_out_whole_if_one_of_its_hosts_is_taken() -> None:
    planned = plan(
        gateway("old", server("HTTPS", "a.example")),
        gateway("new", server("HTTPS", "b.example", "a.example"), server("HTTPS", "c.example")),
    )
    assert by_address(planned) == {ListenAddress(80): ["old.0", "new.1"]}


def test_hosts_that_only_overlap_coexist() -> None:
    planned = plan(
        gateway("old", server("HTTPS", "*.example")),
        gateway("new", server("HTTPS", "a.example"), server("HTTPS", "*", name="all")),
    )
    assert by_address(planned) == {ListenAddress(80): ["old.0", "new.0", "new.1"]}
    assert [each.server_names for each in planned.listeners[0].servers] == [
        ("*.example",),
        ("a.example",),
        (),
    ]


def test_one_plain_protocol_may_follow_tls() -> None:
    planned = plan(gateway("a", server("HTTPS"), server("HTTP"), server("TCP")))
    assert by_address(planned) == {ListenAddress(80): ["a.0", "a.1"]}


def test_another_bind_is_another_listener() -> None:
    planned = plan(
        gateway("a", server("HTTP"), server("TCP", bind="10.0.0.1")),
        gateway("b", server("HTTP", bind="10.0.0.2"), server("HTTP", bind=EVERYWHERE)),
    )
    assert by_address(planned) == {
        ListenAddress(80): ["a.0", "b.1"],
        ListenAddress(80, "10.0.0.1"): ["a.1"],
        ListenAddress(80, "10.0.0.2"): ["b.0"],
    }
    assert list(planned.by_route) == ["http.80", "http.80.10.0.0.2"]


def test_router_of_a_service_listens_on_its_target_ports() -> None:
    planned = plan(
        gateway("a", server("HTTP"), server("HTTPS", "x.example", number=443)),
        target_ports={80: (8080, 9080), 15021: (15021,)},
    )
    assert by_address(planned) == {
        ListenAddress(8080): ["a.0"],
        ListenAddress(9080): ["a.0"],
        ListenAddress(443): ["a.1"],
    }
    assert list(planned.by_route) == ["http.8080", "http.9080", "https.443.https.a.shop"]


def test_unprivileged_router_leaves_out_low_ports() -> None:
    planned = plan(
        gateway("a", server("HTTP"), server("HTTP", number=8080, name="high")), unprivileged=True
    )
    assert by_address(planned) == {ListenAddress(8080): ["a.1"]}
    assert "below 1024" in planned.left_out[0].reason


def test_hosts_are_for_the_namespaces_that_they_name() -> None:
    planned = plan(gateway("a", server("HTTP", "./a.example", "*/B.example", "other/*")))
    assert [str(each) for each in planned.listeners[0].servers[0].hosts] == [
        "shop/a.example",
        "b.example",
        "other/*",
    ]
