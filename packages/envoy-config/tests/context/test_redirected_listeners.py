"""Which listeners of redirected proxies are generated anew after an edit, and which are shared."""

from collections.abc import Callable

import pytest

from capturing_services import peer_authentication, service
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel
from proxies import as_json, proxy
from xds_server import Resource

Build = Callable[..., MeshModel]
OWN = "10.77.0.1"


def sidecar(address: str = OWN, *, namespace: str = "b", mode: str = "REDIRECT") -> Proxy:
    return proxy(address, NAMESPACE=namespace, INTERCEPTION_MODE=mode)


def listeners_of(context: PushContext, of: Proxy) -> dict[str, Resource]:
    return {each.name: each for each in context.listeners(of).resources}


def tcp(name: str, vip: str, target: int = 7070, port: int = 7000) -> str:
    return service(name, "10.77.0.9", port=port, target=target, port_name="tcp", vip=vip)


SERVICES = (service("web", OWN), tcp("a", "10.9.1.1"), tcp("b", "10.9.1.2"))
DESTINATION_RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: b}
spec:
  host: a.b.svc.cluster.local
  trafficPolicy: {connectionPool: {tcp: {idleTimeout: 5s}}}
"""
ROUTES = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: b, namespace: c}
spec:
  hosts: [b.b.svc.cluster.local]
  exportTo: ["."]
  tcp: [{route: [{destination: {host: a.b.svc.cluster.local}}]}]
"""


@pytest.mark.parametrize(
    ("edited", "wanted"),
    [
        ((*SERVICES, tcp("c", "10.9.1.3")), {"10.9.1.3_7000"}),
        ((*SERVICES[:2], tcp("b", "10.9.1.2", target=7071)), set()),
        ((*SERVICES[:2], tcp("b", "10.9.1.2", port=7001)), {"10.9.1.2_7001"}),
        ((*SERVICES, DESTINATION_RULE), {"10.9.1.1_7000"}),
        ((*SERVICES, peer_authentication("STRICT")), {"virtualInbound"}),
        ((*SERVICES, service("other", "10.77.0.8", target=9999)), set()),
    ],
)
def test_an_edit_makes_the_listeners_that_it_touches_and_no_others(
    model_of: Build, edited: tuple[str, ...], wanted: set[str]
) -> None:
    before = PushContext(model_of(*SERVICES))
    old = listeners_of(before, sidecar())

    new = listeners_of(PushContext(model_of(*edited), before=before), sidecar())

    differing = {
        name for name, each in new.items() if name not in old or each.body != old[name].body
    }
    assert differing == wanted
    again = {name for name, each in new.items() if each is not old.get(name)}
    assert again - wanted <= {"virtualOutbound", "virtualInbound"}


def test_what_is_planned_after_edits_is_what_is_planned_at_once(model_of: Build) -> None:
    steps = (
        SERVICES,
        (*SERVICES, tcp("c", "10.9.1.2")),
        (tcp("z", "10.9.1.1"), *SERVICES),
        (*SERVICES[:1], tcp("c", "10.9.1.2"), DESTINATION_RULE),
        (*SERVICES, DESTINATION_RULE),
        (*SERVICES, DESTINATION_RULE, ROUTES),
        SERVICES,
    )
    context = None
    for each in steps:
        model = model_of(*each)
        context = PushContext(model, before=context)
        for namespace in "bc":
            # Of one namespace alone, nothing is shared with another.
            fresh = PushContext(model)
            own = sidecar(namespace=namespace)
            assert [one.body for one in context.listeners(own).resources] == [
                one.body for one in fresh.listeners(own).resources
            ]
            assert fresh.conflicts <= context.conflicts


def test_proxies_of_one_namespace_share_their_outbound_listeners(model_of: Build) -> None:
    context = PushContext(model_of(*SERVICES))

    one, two = listeners_of(context, sidecar()), listeners_of(context, sidecar("10.77.0.2"))
    other = listeners_of(context, sidecar("10.77.0.3", namespace="c"))

    for name in ("0.0.0.0_80", "10.9.1.1_7000"):
        assert one[name] is two[name]
        assert one[name] is other[name]


def test_a_proxy_is_refused_no_listener_of_a_mesh_that_has_switched_them_off(
    model_of: Build,
) -> None:
    mesh = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {proxyListenPort: -1}\n"

    assert listeners_of(PushContext(model_of(*SERVICES, mesh)), sidecar()) == {}


SIDECARS = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: b}
spec:
  egress:
  - port: {number: 80, name: http, protocol: HTTP}
    bind: 127.0.0.1
    captureMode: NONE
    hosts: [b/*]
  - port: {number: 3128, protocol: HTTP_PROXY, name: proxy}
    bind: 127.0.0.1
    captureMode: NONE
    hosts: [b/*]
  - port: {number: 0, protocol: HTTP, name: http-socket}
    bind: unix:///run/egress.sock
    hosts: [b/*]
  - hosts: ['*/*']
"""
HTTP_PROXY = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {proxyHttpPort: 3129}\n"


@pytest.mark.parametrize("further", [(), (SIDECARS,), (HTTP_PROXY,), (SIDECARS, HTTP_PROXY)])
def test_every_route_configuration_that_a_listener_names_is_there(
    model_of: Build, further: tuple[str, ...]
) -> None:
    undeclared = service("auto", "10.77.0.9", port=9000, port_name="x", vip="10.9.1.9")
    shared = service("shared", "10.77.0.9", port=9001, port_name="x", vip=None)
    context = PushContext(model_of(*SERVICES, undeclared, shared, *further))
    names = frozenset(
        manager["rds"]["route_config_name"]
        for listener in as_json(context.listeners(sidecar()))
        for chain in listener.get("filter_chains", [])
        for each in chain["filters"]
        if "rds" in (manager := each["typed_config"])
    )

    assert {"9001", "auto.b.svc.cluster.local:9000"} <= names
    found = {each.name for each in context.routes(sidecar(), names).resources}

    assert found == names
    if SIDECARS in further:
        assert {"http_proxy|3128", "unix:///run/egress.sock"} <= names


@pytest.mark.parametrize("name", ["", ", name: x", ", name: http", ", name: tcp"])
def test_an_egress_port_that_declares_no_protocol_is_looked_at_whatever_its_name(
    model_of: Build, name: str
) -> None:
    egress = (
        "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
        "metadata: {name: default, namespace: b}\n"
        f"spec: {{egress: [{{port: {{number: 80{name}}}, hosts: ['b/*']}}]}}\n"
    )

    context = PushContext(model_of(service("web", "10.77.0.9"), egress))

    (listener,) = (
        each for each in as_json(context.listeners(sidecar())) if each["name"] == "10.9.0.1_80"
    )
    filters = [
        each["filters"][-1]["name"]
        for each in (*listener["filter_chains"], listener["default_filter_chain"])
    ]
    assert filters == [
        "envoy.filters.network.http_connection_manager",
        "envoy.filters.network.tcp_proxy",
    ]
    route = "web.b.svc.cluster.local:80"
    assert [each.name for each in context.routes(sidecar(), frozenset({route})).resources] == [
        route
    ]
