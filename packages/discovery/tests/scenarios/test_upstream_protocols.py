"""The version of HTTP that applications are asked in."""

import pytest

from destination_rules import rule
from documents import entry
from gateway_documents import gateway, secret, server, to, virtual_service
from gateway_scenes import client_context
from scenarios import MeshEnvoy, Scene, get_http2

HOST = "s.b.svc.cluster.local"
FOLLOWS = rule(
    "trafficPolicy: {connectionPool: {http: {useClientProtocol: true}}}", host=HOST, namespace="b"
)


def service(address: str, *, protocol: str = "", account: str = "") -> str:
    """Return the service s.b at an address; without a protocol its port declares none.

    account: of the sidecar there, which takes mutual TLS.
    """
    served_by = f", serviceAccount: {account}" if account else ""
    declared = f"name: {protocol.lower()}, protocol: {protocol}" if protocol else "name: data"
    return entry(
        "s",
        f"hosts: [{HOST}], location: MESH_INTERNAL, resolution: STATIC, "
        f"ports: [{{number: 80, {declared}, targetPort: 8080}}], "
        f"endpoints: [{{address: {address}{served_by}}}]",
        namespace="b",
    )


async def version_asked_in(proxy: MeshEnvoy, port: int, host: str) -> tuple[str, str]:
    """Ask in HTTP/1.1 and in HTTP/2; return the versions in which the application was asked."""
    first = await proxy.get(f"http://{host}:{port}/")
    second = await get_http2(proxy.outbound_address, port, f"{host}:{port}")
    return first.body, second.body


async def test_a_gateway_asks_an_undeclared_port_in_http_1_whatever_the_browser_speaks(
    scene: Scene,
) -> None:
    """Applications that know no other version are behind such ports, and browsers offer both."""
    application = await scene.echo("v1")
    router, port = await scene.router(), scene.port()
    await scene.apply(
        service=service(application.address),
        shop=secret("shop", scene.authority.issue("a.example")),
        gw=gateway(
            server("HTTPS", port, "a.example", tls={"mode": "SIMPLE", "credentialName": "shop"})
        ),
        vs=virtual_service("a.example", http=[{"route": to(HOST)}]),
    )
    browser = client_context(scene.authority, scene.tmp_path)

    answer = await get_http2(router.outbound_address, port, "a.example", tls=browser)

    assert (answer.status, answer.version) == (200, "v1")


async def test_a_gateway_asks_an_undeclared_port_as_its_client_does_if_a_rule_says_so(
    scene: Scene,
) -> None:
    application = await scene.version_echo()
    router, port = await scene.router(), scene.port()
    await scene.apply(
        service=service(application.address),
        gw=gateway(server("HTTP", port, "a.example")),
        vs=virtual_service("a.example", http=[{"route": to(HOST)}]),
    )
    assert await version_asked_in(router, port, "a.example") == ("HTTP/1.1", "HTTP/1.1")

    await scene.apply(rule=FOLLOWS)

    assert await version_asked_in(router, port, "a.example") == ("HTTP/1.1", "HTTP/2")


@pytest.mark.parametrize("protocol", ["HTTP", "HTTP2"])
async def test_an_application_is_asked_as_its_client_does_if_a_rule_says_so(
    protocol: str, scene: Scene
) -> None:
    """Through the proxies of both sides, whatever version the port declares."""
    declared = {"HTTP": "HTTP/1.1", "HTTP2": "HTTP/2"}[protocol]
    sidecar = await scene.sidecar("s", namespace="b", service_account="s")
    await scene.version_echo(address=sidecar.app_address)
    client = await scene.sidecar("c")
    await scene.apply(service=service(sidecar.address, protocol=protocol, account="s"))
    assert await version_asked_in(client, 80, HOST) == (declared, declared)

    await scene.apply(rule=FOLLOWS)

    assert await version_asked_in(client, 80, HOST) == ("HTTP/1.1", "HTTP/2")
