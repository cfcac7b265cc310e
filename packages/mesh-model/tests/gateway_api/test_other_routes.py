"""GRPCRoutes, TLSRoutes, TCPRoutes, and routes whose parent is a service."""

import pytest

from gateway_api_meshes import CLUSTER, aliased, mesh_facts, service, translated
from istio_config.kinds.virtual_service import StringMatch

LISTENERS = """
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: istio
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: pass, port: 443, protocol: TLS, tls: {mode: Passthrough}}
  - {name: end, port: 444, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: shop}]}}
  - {name: tcp, port: 9000, protocol: TCP}
"""


def route(
    kind: str,
    rules: str,
    *,
    parent: str = "{name: gw}",
    name: str = "r",
    namespace: str = "shop",
    hostnames: str = "",
    created: str = "",
) -> str:
    hosts = f"hostnames: [{hostnames}]," if hostnames else ""
    return f"""
---
kind: {kind}
metadata: {{name: {name}, namespace: {namespace}, created: "{created}"}}
spec: {{parentRefs: [{parent}], {hosts} rules: [{rules}]}}
"""


PASS = "{name: gw, sectionName: pass}"
CART = "backendRefs: [{name: cart, port: 80}]"


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("{service: shop.Cart, method: Add}", StringMatch(exact="/shop.Cart/Add")),
        ("{service: shop.Cart}", StringMatch(prefix="/shop.Cart/")),
        ("{method: Add}", StringMatch(regex="/[^/]+/Add")),
        (
            "{type: RegularExpression, service: 'shop|depot'}",
            StringMatch(regex="/(?:shop|depot)/[^/]+"),
        ),
    ],
)
def test_a_method_of_grpc_is_a_path(method: str, uri: StringMatch) -> None:
    found = translated(
        LISTENERS + route("GRPCRoute", f"{{matches: [{{method: {method}}}], {CART}}}")
    )
    assert found.routes("http", "*")[0].match[0].uri == uri


def test_grpc_routes_are_ordered_by_service_then_method_then_headers() -> None:
    found = translated(
        LISTENERS
        + route(
            "GRPCRoute",
            f"{{name: all, {CART}}}, "
            f"{{name: method, matches: [{{method: {{method: LongMethod}}}}], {CART}}}, "
            f"{{name: service, matches: [{{method: {{service: a.B}}}}], {CART}}}, "
            f"{{name: both, matches: [{{method: {{service: a.B, method: C}}}}], {CART}}}, "
            f"{{name: header, matches: [{{headers: [{{name: x, value: y}}]}}], {CART}}}",
        )
    )
    assert [each.name.split(".")[2] for each in found.routes("http", "*")] == [
        "both",
        "service",
        "method",
        "header",
        "all",
    ]


def test_tls_is_passed_through_by_sni_to_the_oldest_route_of_a_host() -> None:
    found = translated(
        LISTENERS
        + route(
            "TLSRoute",
            f"{{{CART}}}",
            parent=PASS,
            hostnames="a.example, b.example",
            name="old",
            created="2024-01-01T00:00:00Z",
        )
        + route(
            "TLSRoute",
            "{backendRefs: [{name: log, port: 80}]}",
            parent=PASS,
            hostnames="b.example, c.example",
            name="young",
        )
        + route("TLSRoute", f"{{{CART}}}", parent=PASS, hostnames="a.example")
    )
    (old,), (young,) = (
        found.by_host["pass", "a.example"].tls,
        found.by_host["pass", "c.example"].tls,
    )
    assert old.match[0].sni_hosts == ("a.example", "b.example")
    assert young.match[0].sni_hosts == ("c.example",)
    assert found.conditions("TLSRoute", "r")[0] == "Accepted=False RouteConflict"
    assert "an older route has these hosts" in found.warnings[0]


def test_tls_that_ends_at_the_gateway_has_a_server_for_each_host() -> None:
    found = translated(
        LISTENERS
        + route(
            "TLSRoute",
            f"{{{CART}}}",
            parent="{name: gw, sectionName: end}",
            hostnames="a.example, b.example",
        )
    )
    servers = found.servers()["end"].servers
    assert [each.hosts for each in servers] == [("a.example",), ("b.example",)]
    assert found.by_host["end", "a.example"].tcp[0].route[0].destination is not None


def test_tcp_goes_to_the_backends_of_the_oldest_route() -> None:
    rules = "{backendRefs: [{name: cart, port: 80, weight: 3}, {name: cart-next, port: 80}]}"
    found = translated(
        LISTENERS
        + route("TCPRoute", rules, parent="{name: gw, sectionName: tcp}")
        + route("TCPRoute", f"{{{CART}}}", parent="{name: gw, sectionName: tcp}", name="s")
    )
    (one,) = found.by_host["tcp", "*"].tcp
    assert [each.weight for each in one.route] == [3, 1]
    assert found.conditions("TCPRoute", "s")[0] == "Accepted=False RouteConflict"


def test_a_route_of_a_kind_that_a_listener_does_not_take_is_reported() -> None:
    found = translated(LISTENERS + route("TCPRoute", f"{{{CART}}}", parent="{name: gw, port: 80}"))
    assert found.conditions("TCPRoute", "r") == ["Accepted=False NotAllowedByListeners"]


SERVICE = '{group: "", kind: Service, name: cart}'


def mesh_routes(*documents: str) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return the names of the routes of the service cart, by namespace and exportTo."""
    found = translated("".join(documents).removeprefix("\n---"))
    return {
        (each.namespace, each.spec.export_to): [one.name for one in each.spec.http]  # type: ignore[attr-defined]
        for each in found.api.virtual_services
    }


def test_a_route_beside_its_service_is_for_all_its_clients() -> None:
    assert mesh_routes(
        route("HTTPRoute", f"{{{CART}}}", parent=SERVICE, name="a"),
        route("HTTPRoute", f"{{{CART}}}", parent=SERVICE, name="b"),
    ) == {("shop", ("*",)): ["shop.a.0.0", "shop.b.0.0"]}


def test_a_route_in_another_namespace_is_for_the_clients_there() -> None:
    parent = SERVICE.replace("name: cart", "name: cart, namespace: shop")
    assert mesh_routes(
        route("HTTPRoute", f"{{{CART}}}", parent=SERVICE, name="a"),
        route("HTTPRoute", f"{{{CART}}}", parent=parent, name="b", namespace="depot"),
    ) == {("shop", ("*",)): ["shop.a.0.0"], ("depot", (".",)): ["depot.b.0.0"]}


def test_a_port_of_the_parent_is_a_condition_of_its_matches() -> None:
    parent = SERVICE.replace("name: cart", "name: cart, port: 81")
    found = translated(route("HTTPRoute", f"{{{CART}}}", parent=parent).removeprefix("\n---"))
    (one,) = found.routes("mesh", f"cart.shop{CLUSTER}")
    assert one.match[0].port == 81


@pytest.mark.parametrize("change", ["name: gone", "name: cart, port: 82"])
def test_a_service_that_is_not_there_is_reported(change: str) -> None:
    parent = SERVICE.replace("name: cart", change)
    found = translated(route("HTTPRoute", f"{{{CART}}}", parent=parent).removeprefix("\n---"))
    assert found.conditions("HTTPRoute", "r") == ["Accepted=False NoMatchingParent"]
    assert found.api.virtual_services == ()


def test_a_parent_that_stands_for_another_service_is_reported() -> None:
    around = mesh_facts([aliased(service("cart", 80), "old")])
    parent = SERVICE.replace("name: cart", "name: old")
    found = translated(
        route("HTTPRoute", f"{{{CART}}}", parent=parent).removeprefix("\n---"), around
    )
    assert found.conditions("HTTPRoute", "r") == ["Accepted=False NoMatchingParent"]
    assert f"stands for cart.shop{CLUSTER}: name that service" in found.warnings[0]


def test_connections_of_clients_are_routed_too() -> None:
    found = translated(
        route("TCPRoute", f"{{{CART}}}", parent=SERVICE).removeprefix("\n---")
        + route("TLSRoute", f"{{{CART}}}", parent=SERVICE.replace("cart", "log"))
    )
    assert found.by_host["mesh", f"cart.shop{CLUSTER}"].tcp[0].match == ()
    (tls,) = found.by_host["mesh", f"log.shop{CLUSTER}"].tls
    assert tls.match[0].sni_hosts == (f"log.shop{CLUSTER}",)
