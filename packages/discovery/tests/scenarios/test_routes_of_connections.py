"""Routes of VirtualServices for connections, where nothing is intercepted."""

from scenarios import Scene, TcpEcho

SERVICES = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: {port}, name: tcp, targetPort: {target}}}]
  endpoints: [{{address: {address}}}]
"""


async def test_connections_go_where_routes_for_tcp_send_them(scene: Scene) -> None:
    one, two = await scene.tcp_echo("one"), await scene.tcp_echo("two")
    client = await scene.sidecar("c", labels={"app": "web"})

    def spelled(echo: TcpEcho, port: int) -> str:
        return SERVICES.format(name=echo.version, port=port, target=echo.port, address=echo.address)

    await scene.apply(one=spelled(one, 7001), two=spelled(two, 7002))
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
