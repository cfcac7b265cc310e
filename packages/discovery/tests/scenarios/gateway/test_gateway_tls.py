"""Servers of gateways that do not look into connections: TLS passed on, and TCP."""

import asyncio
import ssl

from gateway_documents import S, gateway, secret, server, service, to, virtual_service
from gateway_scenes import client_context, mesh_context
from scenarios import MeshEnvoy, Scene

PASSTHROUGH = {"mode": "PASSTHROUGH"}


async def said(
    router: MeshEnvoy, port: int, context: ssl.SSLContext | None, sni: str | None = None
) -> bytes | None:
    """Send a line to a gateway's port; return what comes, None if there is no TLS session."""
    try:
        reader, writer = await asyncio.open_connection(
            router.outbound_address, port, ssl=context, server_hostname=sni
        )
    except (ssl.SSLError, ConnectionError):
        return None
    try:
        writer.write(b"hello\n")
        return await asyncio.wait_for(reader.readline(), 5)
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        writer.close()


def by_sni(*names: str, host: str = S) -> list[dict[str, object]]:
    return [{"match": [{"sniHosts": list(names)}], "route": to(host)}]


async def test_passed_through_tls_ends_at_the_upstream_and_a_taken_host_is_reported(
    scene: Scene,
) -> None:
    """Scenario 51."""
    upstream = await scene.tcp_echo("v1", tls=scene.tls("a.example", "b.example"))
    other = await scene.tcp_echo("v2", tls=scene.tls("a.example", "c.example"))
    router, port = await scene.router(), scene.port()
    host = "t.b.svc.cluster.local"
    await scene.apply(
        s=service(upstream.address, port=upstream.port, protocol="TLS"),
        t=service(other.address, host=host, port=other.port, protocol="TLS"),
        gw=gateway(server("TLS", port, "a.example", "b.example", tls=PASSTHROUGH)),
        vs=virtual_service("a.example", "b.example", tls=by_sni("a.example", "b.example")),
        late=gateway(
            server("TLS", port, "a.example", tls=PASSTHROUGH),
            server("TLS", port, "c.example", name="c", tls=PASSTHROUGH),
            name="late",
        ),
        vs_late=virtual_service(
            "a.example",
            "c.example",
            name="vs-late",
            gateways=("b/late",),
            tls=by_sni("c.example", host=host),
        ),
    )
    context = client_context(scene.authority, scene.tmp_path)

    assert await said(router, port, context, "a.example") == b"v1 hello\n"
    assert await said(router, port, context, "b.example") == b"v1 hello\n"
    assert await said(router, port, context, "c.example") == b"v2 hello\n"
    assert await said(router, port, context, "d.example") is None
    assert upstream.server_names == ["a.example", "b.example"]
    (problem,) = scene.plane.pages.status()["taken"]
    assert problem["field"] == "spec.servers[0]"
    assert "its host a.example" in problem["message"]
    assert len(scene.plane.context.left_out) == 1


async def test_tls_of_the_mesh_is_passed_to_the_service_in_its_sni(scene: Scene) -> None:
    """Scenario 53."""
    router, port = await scene.router(), scene.port()
    address = scene.network.address()
    await scene.apply(
        s=service(address, serviceAccount="s"),
        gw=gateway(server("TLS", port, "*.local", tls={"mode": "AUTO_PASSTHROUGH"})),
    )
    sidecar = await scene.sidecar("s", namespace="b", service_account="s", address=address)
    echo = await scene.echo("v1", address=sidecar.app_address)
    assert echo.port == 8080
    context = mesh_context(scene, "a", "c")
    context.set_alpn_protocols(["istio"])
    name = f"outbound_.80_._.{S}"

    async def answered(sni: str, tls: ssl.SSLContext = context) -> bytes | None:
        try:
            reader, writer = await asyncio.open_connection(
                router.outbound_address, port, ssl=tls, server_hostname=sni
            )
        except (ssl.SSLError, ConnectionError):
            return None
        writer.write(b"GET /x HTTP/1.1\r\nHost: s.b\r\nConnection: close\r\n\r\n")
        try:
            return await asyncio.wait_for(reader.read(), 5)
        finally:
            writer.close()

    found = await answered(name)
    assert found is not None
    assert b"200 OK" in found
    details = echo.requests[0].headers["x-forwarded-client-cert"]
    assert "URI=spiffe://cluster.local/ns/a/sa/c" in details

    assert await answered(f"outbound_.81_._.{S}") is None
    assert await answered("other.example") is None
    foreign = mesh_context(scene, "a", "c")
    foreign.set_alpn_protocols(["http/1.1"])
    assert await answered(name, foreign) is None


async def test_tcp_server_forwards_by_its_port_and_tls_server_after_ending_tls(
    scene: Scene,
) -> None:
    echo = await scene.tcp_echo("v1", banner=b"ready\n")
    router, port, secure = await scene.router(), scene.port(), scene.port()
    await scene.apply(
        shop=secret("shop", scene.authority.issue("a.example")),
        s=service(echo.address, port=echo.port, protocol="TCP"),
        gw=gateway(
            server("TCP", port, "*"),
            server("TLS", secure, "a.example", tls={"mode": "SIMPLE", "credentialName": "shop"}),
        ),
        vs=virtual_service("a.example", tcp=[{"route": to()}]),
    )
    context = client_context(scene.authority, scene.tmp_path)

    assert await said(router, port, None) == b"ready\n"
    assert await said(router, secure, context, "a.example") == b"ready\n"
    assert await said(router, secure, context, "b.example") is None
