"""Where a proxy listens without interception, as its Sidecar says."""

from collections.abc import Callable

import pytest

from documents import entry
from envoy_config.context._context import PushContext
from envoy_config.plan._inbound import InboundPort
from envoy_config.plan._outbound import HttpOutbound, Outbound, TcpOutbound
from istio_config.kinds.peer_authentication import MutualTlsMode
from istio_config.kinds.protocol import Protocol
from mesh_model import MeshModel
from proxies import proxy

Build = Callable[..., MeshModel]
OWN = "127.93.1.3"

SERVICES = (
    entry(
        "web",
        "hosts: [web.x], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]",
    ),
    entry(
        "both",
        "hosts: [both.x], resolution: STATIC,"
        " ports: [{number: 80, name: http, protocol: HTTP}, "
        "{number: 90, name: tcp, protocol: TCP}]",
    ),
    entry(
        "db", "hosts: [db.x], resolution: STATIC, ports: [{number: 90, name: tcp, protocol: TCP}]"
    ),
)


def sidecar(spec: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
        f"metadata: {{name: default, namespace: default}}\nspec: {spec}\n"
    )


def http(port: int, route: str = "", bind: str = OWN) -> HttpOutbound:
    return HttpOutbound(bind=bind, port=port, route=route or str(port))


def tcp(port: int, cluster: str, bind: str = OWN) -> TcpOutbound:
    return TcpOutbound(bind=bind, port=port, cluster=cluster, is_virtual_address=False)


LISTENERS: dict[str, tuple[str, tuple[Outbound, ...]]] = {
    "hosts alone": ("{hosts: ['*/db.x']}", (tcp(90, "outbound|90||db.x"),)),
    "one port of several": (
        "{port: {number: 80, protocol: HTTP}, hosts: ['*/both.x']}",
        (http(80),),
    ),
    "an address": (
        "{port: {number: 90, protocol: TCP}, bind: 127.0.0.9, hosts: ['*/*']}",
        (tcp(90, "outbound|90||both.x", "127.0.0.9"),),
    ),
    "the service's protocol": (
        "{port: {number: 90}, captureMode: NONE, hosts: ['*/db.x']}",
        (tcp(90, "outbound|90||db.x"),),
    ),
    "redirected connections, which do not come": (
        "{port: {number: 80, protocol: HTTP}, captureMode: IPTABLES, hosts: ['*/*']}",
        (),
    ),
    "an HTTP proxy": (
        "{port: {number: 3128, protocol: HTTP_PROXY}, hosts: ['*/*']}",
        (http(3128, "http_proxy|3128"),),
    ),
    "a socket for requests": (
        "{port: {number: 0, protocol: HTTP}, bind: 'unix:///s', hosts: ['*/*']}",
        (http(0, "unix:///s", "unix:///s"),),
    ),
    "a socket for connections": (
        "{port: {number: 0, protocol: TCP}, bind: 'unix:///s', hosts: ['*/db.x']}",
        (tcp(0, "outbound|90||db.x", "unix:///s"),),
    ),
    "a port of its own, and the rest": (
        "{port: {number: 80, protocol: HTTP}, hosts: ['*/web.x']}, {hosts: ['*/both.x']}",
        (tcp(90, "outbound|90||both.x"), http(80)),
    ),
}


@pytest.mark.parametrize(("egress", "listeners"), LISTENERS.values(), ids=LISTENERS)
def test_egress_listeners_are_where_the_sidecar_says(
    egress: str, listeners: tuple[Outbound, ...], model_of: Build
) -> None:
    context = PushContext(model_of(*SERVICES, sidecar(f"{{egress: [{egress}]}}")))

    assert context.outbound(proxy()).listeners == listeners


def inbound(context: PushContext) -> list[tuple[str, int, str, int]]:
    ports = context.inbound(proxy()).ports
    return [(each.bind, each.number, each.app_address, each.app_port) for each in ports]


SERVED = entry(
    "own",
    "hosts: [own.x], resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}],"
    " endpoints: [{address: 127.93.1.1}]",
)
INGRESS = {
    "as the workload listens": ("", ("127.93.1.1", 9080, "127.93.1.2", 9080)),
    "loopback": (
        "defaultEndpoint: '127.0.0.1:81'",
        ("127.93.1.1", 9080, "127.0.0.1", 81),
    ),
    "its own address": (
        "defaultEndpoint: '0.0.0.0:81'",
        ("127.93.1.1", 9080, "127.93.1.1", 81),
    ),
    "no address": ("defaultEndpoint: ':9080'", ("127.93.1.1", 9080, "127.93.1.2", 9080)),
    "socket": ("defaultEndpoint: 'unix:///s'", ("127.93.1.1", 9080, "unix:///s", 0)),
    "bind": ("bind: 127.0.0.9", ("127.0.0.9", 9080, "127.93.1.2", 9080)),
}


@pytest.mark.parametrize(("fields", "wanted"), INGRESS.values(), ids=INGRESS)
def test_ingress_listeners_replace_the_ports_of_services(
    fields: str, wanted: tuple[str, int, str, int], model_of: Build
) -> None:
    port = "port: {number: 9080, protocol: HTTP}"
    spec = f"{{ingress: [{{{port}, {fields}}}]}}"

    assert inbound(PushContext(model_of(SERVED))) == [("127.93.1.1", 8080, "127.93.1.2", 8080)]
    assert inbound(PushContext(model_of(SERVED, sidecar(spec)))) == [wanted]


def test_an_ingress_port_has_the_mode_of_its_own_number(model_of: Build) -> None:
    policy = (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        "metadata: {name: p, namespace: default}\n"
        "spec: {selector: {matchLabels: {app: own}}, mtls: {mode: STRICT},"
        " portLevelMtls: {'9080': {mode: DISABLE}}}\n"
    )
    spec = "{ingress: [{port: {number: 9080, protocol: HTTP}}, {port: {number: 9081}}]}"
    context = PushContext(model_of(SERVED, policy, sidecar(spec)))

    ports: tuple[InboundPort, ...] = context.inbound(proxy(LABELS={"app": "own"})).ports

    assert [(each.number, each.mode) for each in ports] == [
        (9080, MutualTlsMode.DISABLE),
        (9081, MutualTlsMode.STRICT),
    ]
    assert [each.protocol for each in ports] == [Protocol.HTTP, Protocol.AUTO]
