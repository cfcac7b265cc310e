"""Which proxies a change is sent to, and of which types: those to which it makes a difference."""

from pathlib import Path

import pytest

from destination_rules import rule
from documents import document, entry
from pushed_meshes import Mesh, egress, route, router, service, sidecar

FULL = "{}.a.svc.cluster.local"
WEB, DB, FAR = FULL.format("web"), FULL.format("db"), "far.b.svc.cluster.local"


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    """Return web and db in namespace a, far in namespace b; a Sidecar of a imports web alone."""
    return Mesh(
        tmp_path,
        web=service("web", "10.1.0.1"),
        db=service("db", "10.1.0.2"),
        far=service("far", "10.1.0.3", namespace="b"),
        imports=egress("a/web.a.svc.cluster.local"),
    )


def test_with_imports_a_service_that_is_imported_is_pushed_and_no_other(mesh: Mesh) -> None:
    mesh.change(imports=egress("a/*.shop"))
    mesh.connect(client := sidecar(), other := sidecar("b"))
    shop = service("x", "10.1.0.7").replace("x.a.svc.cluster.local", "x.shop")

    come = mesh.change(x=shop)
    assert come.sent_to(client) >= {"CDS", "EDS"}
    assert come.sent_to(other) >= {"CDS", "EDS"}
    gone = mesh.change(x=None)
    assert "CDS" in gone.sent_to(client)
    elsewhere = mesh.change(y=service("y", "10.1.0.8"))
    assert elsewhere.sent_to(client) == set()
    assert "CDS" in elsewhere.sent_to(other)
    hidden = mesh.change(z=shop.replace("namespace: a", "namespace: c").replace("x.shop", "z.shop"))
    assert hidden.sent_to(client) == set()


def test_an_endpoint_of_an_imported_service_is_pushed_alone_and_of_another_not(mesh: Mesh) -> None:
    mesh.connect(client := sidecar(), other := sidecar("b"))

    assert mesh.change(web=service("web", "10.1.0.1", "10.1.0.9")).sent_to(client) == {"EDS"}
    change = mesh.change(db=service("db", "10.1.0.2", "10.1.0.9"))
    assert change.sent_to(client) == set()
    assert change.sent_to(other) == {"EDS"}


def test_a_virtual_service_of_an_imported_host_is_pushed_and_of_another_not(mesh: Mesh) -> None:
    mesh.connect(client := sidecar(), other := sidecar("b"))

    assert mesh.change(routes=route(WEB, WEB, more="timeout: 5s, ")).sent_to(client) == {"RDS"}
    change = mesh.change(more=route(DB, DB, name="more", more="timeout: 5s, "))
    assert change.sent_to(client) == set()
    assert change.sent_to(other) == {"RDS"}


def test_a_destination_is_imported_with_the_virtual_service_that_names_it(mesh: Mesh) -> None:
    mesh.connect(client := sidecar())

    assert mesh.change(far=service("far", "10.1.0.4", namespace="b")).sent_to(client) == set()
    assert mesh.change(routes=route(WEB, FAR)).sent_to(client) == {"CDS", "EDS", "RDS"}
    assert mesh.change(far=service("far", "10.1.0.5", namespace="b")).sent_to(client) == {"EDS"}
    assert mesh.change(routes=None).sent_to(client) >= {"CDS", "RDS"}
    assert mesh.change(far=service("far", "10.1.0.6", namespace="b")).sent_to(client) == set()


def test_a_delegate_alone_is_pushed_to_those_who_use_its_root(mesh: Mesh) -> None:
    def delegate(timeout: str) -> str:
        spec = f"{{http: [{{timeout: {timeout}, route: [{{destination: {{host: {WEB}}}}}]}}]}}"
        return document("VirtualService", "delegate", spec)

    root = f"{{hosts: [{WEB}], http: [{{delegate: {{name: delegate}}}}]}}"
    mesh.change(delegate=delegate("1s"), root=document("VirtualService", "root", root))
    mesh.connect(client := sidecar(), gateway := router())

    change = mesh.change(delegate=delegate("2s"))
    assert change.sent_to(client) == {"RDS"}
    assert change.sent_to(gateway) == set()


def test_a_destination_rule_of_an_imported_host_is_pushed_and_of_another_not(mesh: Mesh) -> None:
    def rule(host: str, pool: int) -> str:
        policy = f"{{connectionPool: {{http: {{http2MaxRequests: {pool}}}}}}}"
        return document(
            "DestinationRule", host[:3].strip("."), f"{{host: {host}, trafficPolicy: {policy}}}"
        )

    mesh.connect(client := sidecar(), other := sidecar("b"))
    assert mesh.change(rule=rule(WEB, 5)).sent_to(client) == {"CDS"}
    change = mesh.change(more=rule(DB, 5))
    assert change.sent_to(client) == set()
    assert change.sent_to(other) == {"CDS"}
    assert mesh.change(rule=rule(WEB, 6), more=rule(DB, 5)).sent_to(other) == {"CDS"}


def test_a_sidecar_that_does_not_select_a_proxy_is_not_pushed_to_it(mesh: Mesh) -> None:
    mesh.connect(client := sidecar(labels={"app": "client"}), other := sidecar("b"))
    other_workloads = egress("a/db.a.svc.cluster.local", name="others", selector="app: other")

    assert mesh.change(others=other_workloads).sent_to(client) == set()
    change = mesh.change(imports=egress("a/db.a.svc.cluster.local"))
    assert change.sent_to(client) >= {"CDS", "EDS", "RDS"}
    assert change.sent_to(other) == set()


def test_gateways_do_not_touch_sidecars_nor_sidecars_routers(mesh: Mesh) -> None:
    port = "port: {number: 8080, name: http, protocol: HTTP}"
    gateway = f"{{selector: {{istio: gw}}, servers: [{{{port}, hosts: ['*']}}]}}"
    mesh.connect(client := sidecar(), gw := router(labels={"istio": "gw"}), sidecar("b"))

    opened = mesh.change(gateway=document("Gateway", "gw", gateway))
    assert opened.sent_to(client) == set()
    assert opened.sent_to(gw) == {"LDS", "RDS"}
    assert mesh.change(imports=egress("a/db.a.svc.cluster.local")).sent_to(gw) == set()


def test_a_change_of_the_proxys_own_service_is_pushed_beyond_its_imports(mesh: Mesh) -> None:
    mesh.connect(own := sidecar(address="10.1.0.2"), client := sidecar())

    port = "{number: 80, name: http, protocol: HTTP}, {number: 81, name: tcp, protocol: TCP}"
    change = mesh.change(db=service("db", "10.1.0.2", port=port))
    assert change.sent_to(own) == {"CDS", "LDS"}
    assert change.sent_to(client) == set()


def test_services_of_an_http_proxy_have_their_own_listeners_once_it_is_gone(mesh: Mesh) -> None:
    port = "port: {number: 3128, protocol: HTTP_PROXY, name: proxy}"
    proxy = f"{{egress: [{{{port}, hosts: ['a/*']}}]}}"
    mesh.change(imports=document("Sidecar", "imports", proxy))
    mesh.connect(client := sidecar())

    assert "LDS" in mesh.change(imports=egress("a/*")).sent_to(client)


@pytest.mark.parametrize("hides", ["t.a.svc.cluster.local", "*.a.svc.cluster.local"])
@pytest.mark.parametrize("hidden", ["t.a.svc.cluster.local", "*.a.svc.cluster.local"])
def test_a_rule_that_hid_settings_of_connections_is_pushed_in_listeners_when_it_goes(
    tmp_path: Path, hides: str, hidden: str
) -> None:
    tcp = (
        "hosts: [t.a.svc.cluster.local], addresses: [10.7.0.1], location: MESH_INTERNAL, "
        "resolution: STATIC, ports: [{number: 90, name: tcp, protocol: TCP}], "
        "endpoints: [{address: 10.0.3.1}]"
    )
    idle = "trafficPolicy: {connectionPool: {tcp: {idleTimeout: 7s}}}"
    mesh = Mesh(
        tmp_path,
        tcp=entry("t", tcp, namespace="a"),
        hidden=rule(idle, host=hidden, name="hidden", namespace="a"),
        hides=rule(
            "trafficPolicy: {loadBalancer: {simple: RANDOM}}",
            host=hides,
            name="hides",
            namespace="b",
        ),
    )
    mesh.connect(client := sidecar("b"), other := sidecar("a", address="10.4.0.9"))

    change = mesh.change(hides=None)  # compares what each proxy has with a fresh start
    assert "LDS" in change.sent_to(client)
    assert change.sent_to(other) == set()


def test_a_rule_that_leaves_the_settings_of_connections_is_pushed_in_no_listeners(
    tmp_path: Path,
) -> None:
    def balanced(how: str, *, name: str = "web") -> str:
        policy = f"trafficPolicy: {{loadBalancer: {{simple: {how}}}}}"
        return rule(policy, host=FULL.format(name), name=name, namespace="a")

    pool = "trafficPolicy: {connectionPool: {tcp: {idleTimeout: 7s}}}"
    mesh = Mesh(
        tmp_path,
        web=service("web", "10.1.0.1"),
        rule=balanced("RANDOM"),
        other=rule(pool, host=FULL.format("db"), name="db", namespace="a"),
    )
    mesh.connect(client := sidecar())
    assert mesh.change(rule=balanced("ROUND_ROBIN")).sent_to(client) == {"CDS"}
