"""Headless services where nothing is intercepted, and at gateways: mutual TLS by the endpoint."""

import asyncio
import ssl

import pytest

from documents import peer_authentication
from gateway_documents import gateway, server, to, virtual_service
from headless_services import HOST, HTTP, TCP, TLS, UNDECLARED, Pod, headless_service
from scenarios import MeshEnvoy, Scene

CALLERS = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: callers, namespace: b}
spec:
  selector: {matchLabels: {app: h}}
  rules:
  - from:
    - source:
        principals:
        - cluster.local/ns/a/sa/c
        - cluster.local/ns/b/sa/gw
        - cluster.local/ns/b/sa/h
"""
ENOUGH = 30
"""Calls after which two pods have answered: each is chosen by chance."""
MODES = pytest.mark.parametrize("mode", ["DISABLE", "PERMISSIVE", "STRICT"])


async def stateful_set(scene: Scene, mode: str, *names: str, plain: str = "") -> list[MeshEnvoy]:
    """Start the sidecars of pods, each with its applications; plain: a pod without a sidecar."""
    addresses = {name: scene.network.address() for name in (*names, *filter(None, [plain]))}
    pods = [Pod(name, address, name != plain) for name, address in addresses.items()]
    await scene.apply(
        pods=headless_service(pods),
        mode=peer_authentication(mode),
        # Who calls is known by mutual TLS alone.
        callers=CALLERS if mode != "DISABLE" else None,
    )
    sidecars = []
    for each in pods:
        application = each.address
        if each.has_sidecar:
            sidecars.append(
                await scene.sidecar(
                    each.name,
                    namespace="b",
                    service_account="h",
                    labels={"app": "h"},
                    address=each.address,
                )
            )
            application = sidecars[-1].app_address
        await scene.echo(each.name, address=application, port=HTTP)
        await scene.tcp_echo(each.name, address=application, port=TCP)
    return sidecars


async def answering(client: MeshEnvoy, url: str, count: int = ENOUGH) -> set[str]:
    """Return the statuses and the pods that answer."""
    answers = [await client.get(url) for _ in range(count)]
    return {each.version or f"{each.status} {each.body}" for each in answers}


@MODES
async def test_pods_of_a_headless_service_are_called_as_their_mode_demands(
    mode: str, scene: Scene
) -> None:
    pods = await stateful_set(scene, mode, "h-0", "h-1")
    client = await scene.sidecar("c")

    for caller in (client, pods[0]):
        assert await answering(caller, f"http://{HOST}:{HTTP}/") == {"h-0", "h-1"}
        assert {await caller.send(TCP, b"x\n") for _ in range(ENOUGH)} == {b"h-0 x\n", b"h-1 x\n"}
    seen = (await client.get(f"http://{HOST}:{HTTP}/")).seen.headers
    assert ("x-forwarded-client-cert" in seen) is (mode != "DISABLE")


@MODES
async def test_a_headless_service_is_found_by_its_names_and_those_of_its_pods(
    mode: str, scene: Scene
) -> None:
    """Where nothing is intercepted a name of a pod is one of the service: any pod answers."""
    pods = await stateful_set(scene, mode, "h-0", "h-1")
    client, neighbour = await scene.sidecar("c"), await scene.sidecar("n", namespace="b")
    names = [HOST, "h.b.svc", "h.b"]
    await scene.apply(callers=None)

    for caller, short in ((client, []), (neighbour, ["h"]), (pods[0], ["h"])):
        for name in (*names, *short):
            for host in (name, f"h-1.{name}", f"{name}:12345"):
                answer = await caller.get(f"http://{HOST}:{HTTP}/", headers={"host": host})
                assert (host, answer.status) == (host, 200)
                by_mutual_tls = "x-forwarded-client-cert" in answer.seen.headers
                assert by_mutual_tls is (mode != "DISABLE")


@MODES
async def test_undeclared_ports_and_tls_of_a_headless_service_are_balanced_and_passed_on(
    mode: str, scene: Scene
) -> None:
    """By sidecars, and by gateways: TLS by its server name, and what is no HTTP as it is."""
    pods = await stateful_set(scene, mode, "h-0", "h-1")
    for each in pods:
        application = each.app_address
        await scene.tcp_echo(each.name, address=application, port=UNDECLARED)
        await scene.tcp_echo(each.name, address=application, port=TLS, tls=scene.tls("h.example"))
    client, router = await scene.sidecar("c"), await scene.router()
    tcp, tls = scene.port(), scene.port()
    await scene.apply(
        gw=gateway(
            server("TCP", tcp, "*"),
            server("TLS", tls, "h.example", name="tls", tls={"mode": "PASSTHROUGH"}),
        ),
        tcp=virtual_service("*", name="tcp", tcp=[{"route": to(HOST, UNDECLARED)}]),
        tls=virtual_service(
            "h.example",
            name="tls",
            tls=[{"match": [{"sniHosts": ["h.example"]}], "route": to(HOST, TLS)}],
        ),
    )
    both = {b"h-0 x\n", b"h-1 x\n"}

    for proxy, port in ((client, UNDECLARED), (router, tcp)):
        assert {await proxy.send(port, b"x\n") for _ in range(ENOUGH)} == both
    for proxy, port in ((client, TLS), (router, tls)):
        assert {await in_tls(proxy, port) for _ in range(ENOUGH)} == both


async def in_tls(proxy: MeshEnvoy, port: int) -> bytes:
    """Return the answer to a line in the application's own TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(
        proxy.outbound_address, port, ssl=context, server_hostname="h.example"
    )
    writer.write(b"x\n")
    try:
        return await reader.readline()
    finally:
        writer.close()


@MODES
async def test_a_gateway_calls_the_pods_of_a_headless_service_as_their_mode_demands(
    mode: str, scene: Scene
) -> None:
    await stateful_set(scene, mode, "h-0", "h-1")
    router, port = await scene.router(), scene.port()
    await scene.apply(
        gw=gateway(server("HTTP", port, "h.example")),
        vs=virtual_service("h.example", http=[{"route": to(HOST, HTTP)}]),
    )

    assert await answering(router, f"http://h.example:{port}/") == {"h-0", "h-1"}


async def test_pods_without_a_sidecar_are_called_in_plaintext_and_the_others_are_not(
    scene: Scene,
) -> None:
    await stateful_set(scene, "STRICT", "h-0", plain="h-1")
    client, router, port = await scene.sidecar("c"), await scene.router(), scene.port()
    await scene.apply(
        gw=gateway(server("HTTP", port, "h.example")),
        vs=virtual_service("h.example", http=[{"route": to(HOST, HTTP)}]),
    )

    assert await answering(client, f"http://{HOST}:{HTTP}/") == {"h-0", "h-1"}
    assert await answering(router, f"http://h.example:{port}/") == {"h-0", "h-1"}
