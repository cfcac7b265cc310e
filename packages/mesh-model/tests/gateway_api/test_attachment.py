"""Which listeners routes attach to, what their references lead to, and how all of it stands."""

from weakref import ref

import pytest

from gateway_api_meshes import CLUSTER, SERVICES, aliased, mesh_facts, service, translated
from istio_config.kinds.virtual_service import PortSelector
from mesh_model._gateways import OF_SERVICES, OWN_NAMESPACE
from mesh_model.gateway_api._listeners import NAME_LABEL, intersection


def gateway(*listeners: str, name: str = "gw", class_name: str = "istio", more: str = "") -> str:
    return f"""
---
kind: Gateway
metadata: {{name: {name}}}
spec: {{gatewayClassName: {class_name}, {more} listeners: [{", ".join(listeners)}]}}
"""


def route(
    parents: str = "{name: gw}",
    *,
    kind: str = "HTTPRoute",
    name: str = "r",
    namespace: str = "shop",
    hostnames: str = "",
    backend: str = "{name: cart, port: 80}",
) -> str:
    hosts = "" if kind == "TCPRoute" else f"hostnames: [{hostnames}],"
    return f"""
---
kind: {kind}
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{parentRefs: [{parents}], {hosts} rules: [{{backendRefs: [{backend}]}}]}}
"""


PORT = "name: http, port: 80, protocol: HTTP"
HTTP = f"{{{PORT}}}"
ALL = "allowedRoutes: {namespaces: {from: All}}"


@pytest.mark.parametrize(
    ("listener", "hostnames", "wanted"),
    [
        (None, [], ["*"]),
        (None, ["a.example"], ["a.example"]),
        ("a.example", [], ["a.example"]),
        ("a.example", ["a.example", "b.example"], ["a.example"]),
        ("*.example", ["a.example", "a.b.example", "example"], ["a.example", "a.b.example"]),
        ("a.example", ["*.example"], ["a.example"]),
        ("*.b.example", ["*.example"], ["*.b.example"]),
        ("*.example", ["*.b.example", "*.other"], ["*.b.example"]),
        ("a.example", ["b.example"], []),
    ],
)
def test_hosts_are_those_of_the_listener_and_of_the_route(
    listener: str | None, hostnames: list[str], wanted: list[str]
) -> None:
    assert list(intersection(listener, hostnames)) == wanted


def test_a_gateway_is_for_the_routers_of_its_namespace_that_bear_its_name() -> None:
    (translation,) = translated(gateway(HTTP)).api.gateways
    assert OWN_NAMESPACE in translation.annotations
    assert translated(gateway(HTTP)).servers()["http"].selector == {NAME_LABEL: "gw"}


def test_a_gateway_with_a_hostname_is_for_the_routers_behind_that_service() -> None:
    text = gateway(HTTP, more="addresses: [{type: Hostname, value: ingress}],")
    (translation,) = translated(text).api.gateways
    assert translation.annotations == ((OF_SERVICES, f"ingress.shop{CLUSTER}"),)
    assert translated(text).servers()["http"].selector == {}


def test_a_section_name_or_a_port_chooses_among_listeners() -> None:
    other = "{name: other, port: 81, protocol: HTTP}"
    found = translated(
        gateway(HTTP, other)
        + route("{name: gw, sectionName: http}", name="a", hostnames="a.example")
        + route("{name: gw, port: 81}", name="b", hostnames="b.example")
        + route("{name: gw, port: 82}", name="c")
    )
    assert (found.hosts("http"), found.hosts("other")) == ({"a.example"}, {"b.example"})
    assert found.conditions("HTTPRoute", "c") == ["Accepted=False NoMatchingParent"]
    assert "the Gateway shop/gw has no listener of port 82 (NoMatchingParent)" in found.warnings[0]


@pytest.mark.parametrize(
    ("namespaces", "wanted"),
    [
        ("{from: Same}", False),
        ("{from: All}", True),
        ("{from: None}", False),
        ("{from: Selector, selector: {matchLabels: {team: a}}}", True),
        ("{from: Selector, selector: {matchLabels: {team: b}}}", False),
        (
            (
                "{from: Selector, selector: {matchExpressions: "
                "[{key: kubernetes.io/metadata.name, operator: In, values: [depot]}]}}"
            ),
            True,
        ),
        (
            "{from: Selector, selector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}",
            False,
        ),
    ],
)
def test_a_listener_says_which_namespaces_may_attach(namespaces: str, wanted: bool) -> None:  # noqa: FBT001
    found = translated(
        gateway(
            f"{{name: http, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {namespaces}}}}}"
        )
        + route("{name: gw, namespace: shop}", namespace="depot"),
        mesh_facts(namespaces={"depot": {"team": "a"}}),
    )
    assert (found.hosts("http") == {"*"}) is wanted
    reason = "True Accepted" if wanted else "False NotAllowedByListeners"
    assert found.conditions("HTTPRoute", "r")[0] == f"Accepted={reason}"


def test_hosts_that_no_listener_has_are_reported() -> None:
    found = translated(
        gateway("{name: http, port: 80, protocol: HTTP, hostname: '*.example'}")
        + route(hostnames="a.other")
    )
    assert found.conditions("HTTPRoute", "r") == ["Accepted=False NoMatchingListenerHostname"]
    assert "its listeners have *.example" in found.warnings[0]


def test_requests_are_only_for_the_listener_with_the_most_specific_hostname() -> None:
    found = translated(
        gateway(
            "{name: wide, port: 80, protocol: HTTP, hostname: '*.example'}",
            "{name: narrow, port: 80, protocol: HTTP, hostname: '*.a.example'}",
        )
        + route("{name: gw, sectionName: wide}", hostnames="b.example, x.a.example")
    )
    assert found.hosts("wide") == {"b.example"}
    (answer,) = found.routes("narrow", "*.a.example")
    assert answer.direct_response is not None
    assert answer.direct_response.status == 404


def test_listeners_of_one_port_with_protocols_that_exclude_each_other_are_not_served() -> None:
    found = translated(
        gateway(
            HTTP, "{name: tcp, port: 80, protocol: TCP}", "{name: ok, port: 81, protocol: HTTP}"
        )
    )
    assert set(found.servers()) == {"ok"}
    assert "Conflicted=True ProtocolConflict" in found.conditions("Gateway", "gw")
    assert found.conditions("Gateway", "gw")[0] == "Accepted=True ListenersNotValid"


def test_a_listener_of_https_without_tls_opens_no_port_and_leaves_others_theirs() -> None:
    found = translated(gateway(HTTP, "{name: https, port: 443, protocol: HTTPS}"))

    assert set(found.servers()) == {"http"}
    assert found.conditions("Gateway", "gw") == [
        "Accepted=True Accepted",
        "Programmed=True Programmed",
        "Accepted=True Accepted",
        "Conflicted=False NoConflicts",
        "ResolvedRefs=True ResolvedRefs",
        "Programmed=True Programmed",
        "Accepted=True Accepted",
        "Conflicted=False NoConflicts",
        "ResolvedRefs=True ResolvedRefs",
        "Programmed=False Invalid",
    ]
    (warning,) = found.warnings
    assert "spec.listeners[1]: a listener of HTTPS without tls opens no port" in warning


def test_a_gateway_of_another_class_is_let_pass_and_reported() -> None:
    found = translated(gateway(HTTP, class_name="other") + route())
    assert found.api.gateways == ()
    assert [each.kind for each in found.api.statuses] == ["HTTPRoute"]
    assert found.warnings == [
        (
            "mesh.yaml:1: spec.gatewayClassName: the class other is not of "
            "istio.io/gateway-controller: the Gateway is accepted and has no effect"
        )
    ]


def test_a_class_of_its_own_is_served() -> None:
    own = """
kind: GatewayClass
metadata: {name: mine}
spec: {controllerName: istio.io/gateway-controller}
"""
    assert set(translated(own + gateway(HTTP, class_name="mine")).servers()) == {"http"}


GRANT = """
---
kind: ReferenceGrant
metadata: {name: g, namespace: depot}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}]
  to: [{group: "", kind: Service%s}]
"""


@pytest.mark.parametrize(
    ("grant", "wanted"), [("", True), (", name: stock", True), (", name: other", False)]
)
def test_a_backend_of_another_namespace_needs_its_grant(grant: str, wanted: bool) -> None:  # noqa: FBT001
    text = gateway(HTTP) + route(backend="{name: stock, namespace: depot, port: 80}")
    refused = translated(text)
    assert "ResolvedRefs=False RefNotPermitted" in refused.conditions("HTTPRoute", "r")
    assert refused.warnings[0].startswith("mesh.yaml:2: spec.rules[0].backendRefs[0]: Service")
    found = translated(text + GRANT % grant)
    assert (found.routes("http", "*")[0].direct_response is None) is wanted


def test_backends_by_istio_s_kinds() -> None:
    group = "group: networking.istio.io"
    around = mesh_facts((*SERVICES, service("shop", 443)))
    host = f"{{{group}, kind: Hostname, name: stock.depot{CLUSTER}, port: 80}}"
    entry = f"{{{group}, kind: ServiceEntry, name: shop}}"
    found = translated(gateway(HTTP) + route(backend=f"{host}, {entry}"), around)
    (one,) = found.routes("http", "*")
    assert [each.destination.host for each in one.route if each.destination is not None] == [
        f"stock.depot{CLUSTER}",
        f"shop.shop{CLUSTER}",
    ]


HOSTNAME = f"{{group: networking.istio.io, kind: Hostname, name: old.shop{CLUSTER}}}"


@pytest.mark.parametrize(
    ("backend", "port"),
    [
        ("{name: old, port: 81}", 81),
        (HOSTNAME, 80),
    ],
)
def test_a_service_of_type_external_name_is_a_backend_by_its_own_name(
    backend: str, port: int
) -> None:
    cart = aliased(service("cart", 80, 81), "old", port=80)
    found = translated(gateway(HTTP) + route(backend=backend), mesh_facts([cart]))

    ((destination,),) = [
        [each.destination for each in one.route] for one in found.routes("http", "*")
    ]
    assert destination is not None
    assert destination.host.removesuffix(f".shop{CLUSTER}") in backend
    assert destination.port == PortSelector(number=port)
    assert "ResolvedRefs=True ResolvedRefs" in found.conditions("HTTPRoute", "r")


def test_an_alias_has_the_ports_of_its_target() -> None:
    cart = aliased(service("cart", 80, 81), "old")

    for reference, said in (
        ("{name: old, port: 82}", "has no port 82; it has 80, 81"),
        (HOSTNAME, "has several ports, 80, 81: say which is meant"),
    ):
        found = translated(gateway(HTTP) + route(backend=reference), mesh_facts([cart]))
        host = f"old.shop{CLUSTER}, which stands for cart.shop{CLUSTER}, {said}"
        assert "ResolvedRefs=False BackendNotFound" in found.conditions("HTTPRoute", "r")
        assert host in found.warnings[0]


def https(reference: str, options: str = "") -> str:
    return (
        "{name: https, port: 443, protocol: HTTPS, hostname: a.example, "
        f"tls: {{certificateRefs: [{reference}], options: {{{options}}}}}}}"
    )


def test_certificates_are_named_with_their_namespace() -> None:
    (server,) = translated(gateway(https("{name: shop}"))).servers()["https"].servers
    assert server.tls is not None
    assert (server.hosts, server.tls.mode) == (("a.example",), "SIMPLE")
    assert server.tls.credential_name == "kubernetes-gateway://shop/shop"


def test_istio_s_option_asks_clients_for_certificates() -> None:
    option = "gateway.istio.io/tls-terminate-mode: MUTUAL"
    (server,) = translated(gateway(https("{name: shop}", option))).servers()["https"].servers
    assert server.tls is not None
    assert server.tls.mode == "MUTUAL"


def test_a_certificate_of_another_namespace_needs_its_grant() -> None:
    text = gateway(https("{name: shop, namespace: certs}"))
    refused = translated(text)
    assert refused.servers() == {}
    assert "ResolvedRefs=False RefNotPermitted" in refused.conditions("Gateway", "gw")
    grant = (GRANT % "").replace("HTTPRoute", "Gateway").replace("kind: Service", "kind: Secret")
    assert set(translated(text + grant.replace("depot", "certs")).servers()) == {"https"}


def test_a_missing_certificate_is_reported_and_waited_for() -> None:
    found = translated(gateway(https("{name: gone}")))
    assert set(found.servers()) == {"https"}
    conditions = found.conditions("Gateway", "gw")
    assert "ResolvedRefs=False InvalidCertificateRef" in conditions
    assert "Programmed=False Invalid" in conditions


def test_a_host_has_http_routes_or_grpc_routes_as_the_oldest_decides() -> None:
    found = translated(
        gateway(HTTP) + route(name="b") + route(kind="GRPCRoute", name="a") + route(name="c")
    )
    assert [each.name for each in found.routes("http", "*")] == ["shop.a.0.0"]
    assert found.conditions("HTTPRoute", "b")[0] == "Accepted=False RouteConflict"


def test_the_mesh_that_a_translation_was_built_from_is_not_kept() -> None:
    facts = mesh_facts()
    first = translated(gateway(HTTP) + route(), facts).api
    alike = mesh_facts()
    assert first.build(first.objects, alike, first) is first
    forgotten = ref(facts)
    del facts
    assert forgotten() is None


def test_nothing_is_translated_anew_while_no_answer_of_the_mesh_differs() -> None:
    text = (
        gateway(HTTP)
        + route()
        + route(name="s", hostnames="s.example", backend="{name: x, port: 1}")
    )
    first = translated(text).api
    more = mesh_facts((*SERVICES, service("unrelated", 80)))
    assert first.build(first.objects, more, first) is first
    other = first.build(first.objects, mesh_facts((*SERVICES, service("x", 1))), first)
    kept = [each for each in other.virtual_services if each in first.virtual_services]
    assert [each is first.virtual_services[0] for each in kept] == [True]
    assert len(other.virtual_services) == 2
    assert other.gateways[0] is first.gateways[0]
