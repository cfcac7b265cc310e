"""Routes of VirtualServices for connections, where nothing is intercepted."""

import asyncio
import ssl

import pytest

from scenarios import Scene, TcpEcho

SERVICES = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: {port}, name: {protocol}, protocol: {protocol}, targetPort: {target}}}]
  endpoints: [{{address: {address}}}]
"""


def spell(echo: TcpEcho, port: int, protocol: str) -> str:
    return SERVICES.format(
        name=echo.version,
        port=port,
        protocol=protocol,
        target=echo.port,
        address=echo.address,
    )


async def test_connections_go_where_routes_for_tcp_send_them(scene: Scene) -> None:
    one, two = await scene.tcp_echo("one"), await scene.tcp_echo("two")
    client = await scene.sidecar("c", labels={"app": "web"})

    await scene.apply(one=spell(one, 7001, "tcp"), two=spell(two, 7002, "tcp"))
    assert b"one" in await client.send(7001, b"hello\n")

    await scene.apply(
        routes="""\
            apiVersion: networking.istio.io/v1
            kind: VirtualService
            metadata: {name: one, namespace: b}
            spec:
              hosts: [one.b.svc.cluster.local]
              tcp:
              - match: [{sourceLabels: {app: web}, port: 7001}]
                route: [{destination: {host: two.b.svc.cluster.local}}]
            """
    )
    assert b"two" in await client.send(7001, b"hello\n")

    await scene.apply(
        rule="""\
            apiVersion: networking.istio.io/v1
            kind: DestinationRule
            metadata: {name: two, namespace: b}
            spec:
              host: two.b.svc.cluster.local
              trafficPolicy: {connectionPool: {tcp: {idleTimeout: 1s}}}
            """
    )
    listener = next(
        each
        for each in (await client.dump())["configs"]
        if each["@type"].endswith("ListenersConfigDump")
    )
    assert '"idle_timeout": "1s"' in str(listener).replace("'", '"')
    assert b"two" in await client.send(7001, b"hello\n")


async def test_tls_goes_where_routes_by_sni_send_it(scene: Scene) -> None:
    one = await scene.tcp_echo("one", tls=scene.tls("one.example"))
    two = await scene.tcp_echo("two", tls=scene.tls("two.example"))
    client = await scene.sidecar("c")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    async def ask(name: str) -> bytes:
        reader, writer = await asyncio.open_connection(
            client.outbound_address, 7443, ssl=context, server_hostname=name
        )
        writer.write(b"hello\n")
        try:
            return await reader.readline()
        finally:
            writer.close()

    await scene.apply(one=spell(one, 7443, "tls"), two=spell(two, 7444, "tls"))
    assert b"one" in await ask("any.example")

    await scene.apply(
        routes="""\
            apiVersion: networking.istio.io/v1
            kind: VirtualService
            metadata: {name: one, namespace: b}
            spec:
              hosts: [one.b.svc.cluster.local, "*.one.example"]
              tls:
              - match: [{sniHosts: [two.one.example]}]
                route: [{destination: {host: two.b.svc.cluster.local}}]
              - match: [{sniHosts: ["*.one.example"]}]
                route: [{destination: {host: one.b.svc.cluster.local}}]
            """
    )
    assert b"two" in await ask("two.one.example")
    assert b"one" in await ask("x.one.example")
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await ask("other.example")
