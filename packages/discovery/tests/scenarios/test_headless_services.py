"""Headless services where nothing is intercepted, and at gateways: mutual TLS by the endpoint."""

import pytest

from documents import peer_authentication
from gateway_documents import gateway, server, to, virtual_service
from headless_services import HOST, HTTP, TCP, Pod, headless_service
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


async def answering(client: MeshEnvoy, url: str, count: int = 10) -> set[str]:
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
        assert {await caller.send(TCP, b"x\n") for _ in range(10)} == {b"h-0 x\n", b"h-1 x\n"}
    seen = (await client.get(f"http://{HOST}:{HTTP}/")).seen.headers
    assert ("x-forwarded-client-cert" in seen) is (mode != "DISABLE")


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
