"""Sidecars with real Envoys: what clients reach, where proxies listen, where applications are."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from documents import entry
from planes import eventually
from scenarios import Answer, MeshEnvoy, Reviews, Scene

SIDECAR = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {{name: {name}, namespace: {namespace}}}
spec: {spec}
"""


def sidecar(spec: str, *, namespace: str = "a", name: str = "default") -> str:
    return SIDECAR.format(name=name, namespace=namespace, spec=spec)


async def other_service(scene: Scene, *, port: int = 80) -> None:
    """Add a service `t.b` with one echo."""
    echo = await scene.echo("other")
    await scene.apply(
        service_t=entry(
            "t",
            "hosts: [t.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
            f"ports: [{{number: {port}, name: http, protocol: HTTP, targetPort: {echo.port}}}], "
            f"endpoints: [{{address: {echo.address}}}]",
            namespace="b",
        )
    )


async def status(client: MeshEnvoy, url: str) -> int:
    return (await client.get(url)).status


async def test_only_imported_services_are_reached(scene: Scene) -> None:
    reviews = await scene.reviews()
    await other_service(scene)
    assert await status(reviews.client, "http://t.b/") == 200

    await scene.apply(
        sidecar=sidecar(
            "{egress: [{hosts: [b/s.b.svc.cluster.local]}],"
            " outboundTrafficPolicy: {mode: REGISTRY_ONLY}}"
        )
    )

    assert await status(reviews.client, "http://s.b/") == 200
    assert await status(reviews.client, "http://t.b/") == 502

    async def clusters() -> list[bool]:
        dump = str(await reviews.client.dump())
        return [f"outbound|80||{name}.b.svc.cluster.local" in dump for name in "st"]

    # Those that were removed stay for a second, for listeners that drain.
    await eventually(clusters, wanted=[True, False], what="the imported clusters")

    await scene.apply(sidecar=None)
    assert await status(reviews.client, "http://t.b/") == 200


async def test_a_destination_that_is_not_imported_is_reached_by_its_route(scene: Scene) -> None:
    reviews = await scene.reviews()
    await other_service(scene)

    await scene.apply(
        sidecar=sidecar(
            "{egress: [{hosts: ['*/s.b.svc.cluster.local']}],"
            " outboundTrafficPolicy: {mode: REGISTRY_ONLY}}"
        ),
        route="""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s, namespace: b}
spec:
  hosts: [s.b.svc.cluster.local]
  http: [{route: [{destination: {host: t.b.svc.cluster.local}}]}]
""",
    )

    answer = await reviews.client.get("http://s.b/")
    assert (answer.status, answer.version) == (200, "other")
    assert await status(reviews.client, "http://t.b/") == 502


async def test_a_route_that_is_exported_to_its_own_namespace_acts_there_alone(
    scene: Scene,
) -> None:
    reviews = await scene.reviews()
    neighbour = await scene.sidecar(namespace="b", service_account="n")

    await scene.apply(
        route="""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s, namespace: b}
spec:
  hosts: [s]
  exportTo: [.]
  http: [{directResponse: {status: 418}}]
"""
    )

    assert await status(reviews.client, "http://s.b/") == 200
    assert await status(neighbour, "http://s.b/") == 418


async def test_the_mesh_says_what_routes_are_exported_to_by_default(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        route="""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s, namespace: b}
spec: {hosts: [s], http: [{directResponse: {status: 418}}]}
"""
    )
    assert await status(reviews.client, "http://s.b/") == 418

    await scene.apply(
        mesh_config="""\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec: {defaultVirtualServiceExportTo: [.], accessLogFile: /dev/stdout, accessLogEncoding: JSON}
"""
    )

    assert await status(reviews.client, "http://s.b/") == 200


async def test_unknown_hosts_are_refused_or_let_through(scene: Scene) -> None:
    reviews = await scene.reviews()
    outside = await scene.echo("outside")
    policy = "{{egress: [{{hosts: ['*/*']}}], outboundTrafficPolicy: {{mode: {}}}}}"

    async def ask() -> Answer:
        # Nothing is intercepted: the Host header says where the request goes.
        return await reviews.client.get(
            "http://unknown.example/", headers={"host": f"{outside.address}:{outside.port}"}
        )

    async def found() -> tuple[int, str]:
        answer = await ask()
        return answer.status, answer.version if answer.status == 200 else answer.body

    # Envoy's threads take over new routes one after the other, a moment after its dump has them.
    await scene.apply(sidecar=sidecar(policy.format("REGISTRY_ONLY")))
    await eventually(found, wanted=(502, ""), what="the refusal")

    await scene.apply(sidecar=sidecar(policy.format("ALLOW_ANY")))
    await eventually(found, wanted=(200, "outside"), what="the answer from outside")
    assert await reviews.client.stat("cluster.PassthroughCluster;.upstream_rq_total") >= 1


async def test_a_policy_that_says_nothing_refuses_unknown_hosts(scene: Scene) -> None:
    reviews = await scene.reviews()

    await scene.apply(sidecar=sidecar("{outboundTrafficPolicy: {}}"))

    assert await status(reviews.client, "http://unknown.example/") == 502
    assert await status(reviews.client, "http://s.b/") == 200


@pytest.mark.parametrize("host", ["t", "alias"])
async def test_unknown_hosts_go_to_the_proxy_that_is_named(host: str, scene: Scene) -> None:
    """By its own name, or that of an alias."""
    reviews = await scene.reviews()
    await other_service(scene)
    proxy = f"{{host: {host}.b.svc.cluster.local, port: {{number: 80}}}}"

    await scene.apply(
        alias="""\
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: b}
spec: {type: ExternalName, externalName: t.b.svc.cluster.local}
""",
        sidecar=sidecar(
            "{egress: [{hosts: [b/s.b.svc.cluster.local]}], "
            f"outboundTrafficPolicy: {{mode: ALLOW_ANY, egressProxy: {proxy}}}}}"
        ),
    )

    answer = await reviews.client.get("http://unknown.example/")
    assert (answer.status, answer.version) == (200, "other")
    assert answer.seen.host == "unknown.example"


async def test_a_listener_with_a_port_has_the_hosts_that_it_names(scene: Scene) -> None:
    reviews = await scene.reviews()
    await other_service(scene)
    bind = scene.network.address()

    await scene.apply(
        sidecar=sidecar(
            "{egress: ["
            f"{{port: {{number: 80, protocol: HTTP, name: http}}, bind: {bind},"
            " hosts: [b/t.b.svc.cluster.local]},"
            "{hosts: [b/s.b.svc.cluster.local]}],"
            " outboundTrafficPolicy: {mode: REGISTRY_ONLY}}"
        )
    )

    assert f"{bind}_80" in await reviews.client.envoy.listeners()
    async with aiohttp.ClientSession() as session:
        url = f"http://{bind}/"
        async with session.get(url, headers={"host": "t.b.svc.cluster.local"}) as answer:
            assert answer.status == 200
        async with session.get(url, headers={"host": "s.b.svc.cluster.local"}) as answer:
            assert answer.status == 502


async def test_an_http_proxy_listener_reaches_all_ports_of_its_hosts(scene: Scene) -> None:
    reviews = await scene.reviews()
    await other_service(scene, port=8088)
    port = scene.port()

    await scene.apply(
        sidecar=sidecar(
            f"{{egress: [{{port: {{number: {port}, protocol: HTTP_PROXY, name: proxy}},"
            " hosts: ['b/*']}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}}"
        )
    )

    proxy = f"http://{reviews.client.outbound_address}:{port}"
    async with aiohttp.ClientSession() as session:
        for url, wanted in {
            "http://s.b.svc.cluster.local/": 200,
            "http://t.b.svc.cluster.local:8088/": 200,
            "http://t.b.svc.cluster.local/": 502,
        }.items():
            async with session.get(url, proxy=proxy) as answer:
                assert (url, answer.status) == (url, wanted)


async def test_a_unix_socket_leads_to_the_hosts_that_its_listener_names(
    scene: Scene, tmp_path: Path
) -> None:
    await scene.reviews()
    path = tmp_path / "out.sock"

    await scene.apply(
        sidecar=sidecar(
            f"{{egress: [{{port: {{number: 0, protocol: HTTP}}, bind: 'unix://{path}',"
            " hosts: [b/s.b.svc.cluster.local]}]}"
        )
    )

    connector = aiohttp.UnixConnector(path=str(path))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get("http://s.b.svc.cluster.local/") as answer,
    ):
        assert answer.status == 200
    path.unlink()


async def serve(reviews: Reviews, scene: Scene, ingress: str) -> MeshEnvoy:
    """Start a server with a sidecar that has an ingress listener on port 9080; return a client."""
    server = await scene.sidecar(namespace="b", service_account="u", labels={"app": "u"})
    await scene.apply(
        service_u=entry(
            "u",
            "hosts: [u.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
            "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 9080}], "
            f"endpoints: [{{address: {server.address}, labels: {{app: u}}, serviceAccount: u}}]",
            namespace="b",
        ),
        ingress=sidecar(
            "{workloadSelector: {labels: {app: u}}, ingress: ["
            f"{{port: {{number: 9080, protocol: HTTP, name: http}}, {ingress}}}]}}",
            namespace="b",
            name="u",
        ),
    )
    return reviews.client


async def test_an_ingress_listener_leads_to_a_unix_socket(scene: Scene, tmp_path: Path) -> None:
    reviews = await scene.reviews()
    path = tmp_path / "app.sock"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsocket")
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        client = await serve(reviews, scene, f"defaultEndpoint: 'unix://{path}'")

        found = await client.get("http://u.b/")

    path.unlink()
    assert (found.status, found.body) == (200, "socket")


async def test_an_ingress_listener_leads_to_a_port_of_the_loopback_address(scene: Scene) -> None:
    reviews = await scene.reviews()
    sources: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sources.append(writer.get_extra_info("peername")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    port = scene.port()
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        client = await serve(reviews, scene, f"defaultEndpoint: '127.0.0.1:{port}'")

        found = await client.get("http://u.b/")

    assert found.status == 200
    assert sources == ["127.0.0.1"]


async def test_an_ingress_listener_without_an_address_leads_to_its_own_port(scene: Scene) -> None:
    reviews = await scene.reviews()
    client = await serve(reviews, scene, "defaultEndpoint: ':9080'")
    await scene.echo("u", address=scene.envoys["u-1"].app_address, port=9080)

    found = await client.get("http://u.b/")

    assert (found.status, found.version) == (200, "u")
