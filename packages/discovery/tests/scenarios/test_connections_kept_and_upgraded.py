"""What connections carry beside requests: upgrades, PROXY protocol, pings and ciphers."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import h2.config
import h2.connection
import h2.events
import pytest
from aiohttp import web

from destination_rules import policy
from gateway_documents import gateway, secret, server, service, to, virtual_service
from gateway_scenes import client_context, fails_to_shake_hands, mesh_context
from planes import eventually
from scenarios import MeshEnvoy, Scene

HOST = "s.b.svc.cluster.local"


@asynccontextmanager
async def chat(address: str, port: int = 8080) -> AsyncIterator[None]:
    """Serve a WebSocket that sends back what comes, and closes when it is told to."""

    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"{request.path} {message.data}")
        return socket

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", talk)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
        yield
    finally:
        await runner.cleanup()


async def talked(proxy: MeshEnvoy, url: str) -> list[str]:
    """Return the answers to two messages of one WebSocket."""
    async with proxy.session.ws_connect(url) as socket:
        answers = []
        for each in ("one", "two"):
            await socket.send_str(each)
            answers.append(await socket.receive_str())
        return answers


async def test_a_websocket_goes_through_sidecars_and_gateways(scene: Scene) -> None:
    sidecar = await scene.sidecar("s", namespace="b", service_account="s")
    client, router, port = await scene.sidecar("c"), await scene.router(), scene.port()
    await scene.apply(
        service=service(sidecar.address, serviceAccount="s"),
        gw=gateway(server("HTTP", port, "a.example")),
        vs=virtual_service(
            "a.example",
            http=[
                {
                    "match": [{"uri": {"prefix": "/ws"}}],
                    "rewrite": {"uri": "/chat"},
                    "timeout": "60s",
                    "route": to(HOST),
                }
            ],
        ),
    )

    async with chat(sidecar.app_address):
        assert await talked(client, f"http://{HOST}/x") == ["/x one", "/x two"]
        assert await talked(router, f"http://a.example:{port}/ws") == ["/chat one", "/chat two"]
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await talked(router, f"http://a.example:{port}/other")
    logged = await sidecar.logged(path="/ws")
    assert logged["downstream_peer_uri_san"] == "spiffe://cluster.local/ns/b/sa/gw"


@pytest.mark.parametrize(
    ("version", "beginning"), [("V1", b"PROXY TCP4 "), ("V2", b"\r\n\r\n\x00\r\nQUIT\n")]
)
async def test_a_server_outside_learns_the_client_by_proxy_protocol(
    version: str, beginning: bytes, scene: Scene
) -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.readuntil(b"hello\n")
        received.append(data)
        writer.write(b"bye\n")
        writer.close()

    address = scene.network.address()
    await scene.apply(
        service=service(address, port=7000, protocol="TCP"),
        rule=policy(f"{{proxyProtocol: {{version: {version}}}}}"),
    )
    client = await scene.sidecar("c")

    async with await asyncio.start_server(answer, address, 7000):
        assert await client.send(80, b"hello\n") == b"bye\n"

    (data,) = received
    assert data.startswith(beginning)
    assert data.endswith(b"hello\n")


async def test_http_2_connections_are_kept_alive_by_pings(scene: Scene) -> None:
    pings = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pings
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http.initiate_connection()
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.PingReceived):
                    pings += 1
                if isinstance(event, h2.events.RequestReceived) and event.stream_id is not None:
                    http.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            writer.write(http.data_to_send())
        writer.close()

    address = scene.network.address()
    keepalive = "{connectionPool: {http: {http2KeepAlive: {interval: 1s, timeout: 5s}}}}"
    await scene.apply(service=service(address, protocol="HTTP2"), rule=policy(keepalive))
    client = await scene.sidecar("c")

    async with await asyncio.start_server(answer, address, 8080):
        assert (await client.get(f"http://{HOST}/")).status == 200

        async def pinged() -> bool:
            return pings > 0

        await eventually(pinged, what="a ping on the idle connection")
        connections = f"cluster.outbound|80||{HOST};.upstream_cx_total"
        assert await client.stat(connections) == 1


async def test_connections_of_one_source_go_to_one_endpoint(scene: Scene) -> None:
    echoes = [await scene.tcp_echo(each) for each in ("one", "two", "three")]
    await scene.apply(
        service=service(*(each.address for each in echoes), port=9000, protocol="TCP"),
        rule=policy("{loadBalancer: {consistentHash: {useSourceIp: true}}}"),
    )
    client = await scene.sidecar("c")

    answers: dict[str, set[bytes]] = {}
    for number in range(1, 25):
        source = f"127.0.77.{number}"
        answers[source] = {await sent_from(source, client) for _ in range(3)}

    assert all(len(each) == 1 for each in answers.values())
    assert len(set.union(*answers.values())) > 1


async def sent_from(source: str, client: MeshEnvoy) -> bytes:
    """Return the answer to a line that is sent from an address."""
    reader, writer = await asyncio.open_connection(
        client.outbound_address, 80, local_addr=(source, 0)
    )
    try:
        writer.write(b"x\n")
        return await reader.readline()
    finally:
        writer.close()


async def test_a_gateway_takes_the_ciphers_of_its_server(
    scene: Scene,
) -> None:
    echo = await scene.echo("v1")
    router, port = await scene.router(), scene.port()
    await scene.apply(
        service=service(echo.address),
        shop=secret("shop", scene.authority.issue("a.example")),
        gw=https_gateway(port, cipherSuites=["ECDHE-ECDSA-AES128-GCM-SHA256"]),
        vs=virtual_service("a.example", http=[{"route": to(HOST)}]),
    )
    url = f"https://a.example:{port}/"

    def speaks(cipher: str) -> ssl.SSLContext:
        context = client_context(scene.authority, scene.tmp_path)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(cipher)
        return context

    answer = await router.get(url, ssl=speaks("ECDHE-ECDSA-AES128-GCM-SHA256"))
    assert (answer.status, answer.version) == (200, "v1")
    assert await fails_to_shake_hands(router, url, speaks("ECDHE-ECDSA-AES256-GCM-SHA384"))


def https_gateway(port: int, **tls: Any) -> str:
    settings = {"mode": "SIMPLE", "credentialName": "shop", **tls}
    return gateway(server("HTTPS", port, "a.example", tls=settings))


async def test_sidecars_take_the_ciphers_that_the_mesh_says(scene: Scene) -> None:
    sidecar = await scene.sidecar("s", namespace="b", service_account="s")
    await scene.echo("v1", address=sidecar.app_address)
    client = await scene.sidecar("c")
    suites = "[ECDHE-ECDSA-AES256-GCM-SHA384, ECDHE-RSA-AES256-GCM-SHA384]"
    await scene.apply(
        service=service(sidecar.address, serviceAccount="s"),
        mesh_config=f"""\
            apiVersion: mesh.istio.io/v1alpha1
            kind: MeshConfig
            spec: {{meshMTLS: {{cipherSuites: {suites}}}}}
            """,
    )

    assert (await client.get(f"http://{HOST}/")).status == 200
    assert await shakes_hands(scene, sidecar, "ECDHE+AES256")
    assert not await shakes_hands(scene, sidecar, "ECDHE+AES128")


async def shakes_hands(scene: Scene, sidecar: MeshEnvoy, ciphers: str) -> bool:
    """Return whether a sidecar takes the mutual TLS of a client that has only these ciphers."""
    context = mesh_context(scene, "a", "c")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    context.set_alpn_protocols(["istio"])
    try:
        _, writer = await asyncio.open_connection(sidecar.address, 8080, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return False
    writer.close()
    return True
