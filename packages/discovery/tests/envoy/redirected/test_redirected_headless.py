"""Headless services: connections go to the pod that the client chose, as its mode demands."""

import pytest

from capturing import CaptureLab, Machine, get, line
from capturing_services import peer_authentication
from destination_rules import rule
from headless_services import HOST, HTTP, TCP, UNDECLARED, Pod, headless_service

CALLERS = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: callers, namespace: b}
spec:
  rules:
  - from: [{source: {principals: [cluster.local/ns/a/sa/c, cluster.local/ns/b/sa/h]}}]
"""
ROUTES = f"""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: h, namespace: b}}
spec:
  hosts: [{HOST}, "*.{HOST}"]
  http: [{{route: [{{destination: {{host: {HOST}, subset: one}}}}]}}]
"""
TLS_HANDSHAKE = b"\x16\x03"


async def pods_of(redirected: CaptureLab) -> list[Machine]:
    """Plug in two pods, with an application on each port of theirs."""
    pods = [redirected.machine("h-0"), redirected.machine("h-1")]
    for pod in pods:
        await redirected.serve_tcp(pod, TCP)
        await redirected.serve_http(pod, HTTP)
        await redirected.serve_http(pod, UNDECLARED)
    return pods


async def reaches(client: Machine, pod: Machine) -> None:
    """Call each port of a pod, the way a client does that has looked up the pod's name."""
    answer = await line(client.namespace, pod.address, TCP, b"hello\n")
    assert answer == f"{pod.name}:hello\n".encode()
    for port in (HTTP, UNDECLARED):
        reply = await get(client.namespace, pod.address, port, f"{pod.name}.{HOST}:{port}")
        assert reply is not None, f"port {port} of {pod.name}"
        assert reply.status == 200, f"port {port} of {pod.name}: {reply.body!r}"
        assert reply.json()["app"] == pod.name


@pytest.mark.parametrize("mode", ["DISABLE", "PERMISSIVE", "STRICT"])
async def test_each_pod_of_a_headless_service_is_reached_as_its_mode_demands(
    mode: str, redirected: CaptureLab
) -> None:
    pods, client = await pods_of(redirected), redirected.machine("c")
    wires = [redirected.wire(each) for each in pods]
    mutual = mode != "DISABLE"
    redirected.write(
        pods=headless_service(Pod(each.name, each.address) for each in pods),
        policy=peer_authentication(mode),
        # Who calls is known by mutual TLS alone.
        **({"callers": CALLERS} if mutual else {}),
    )
    for each in pods:
        await redirected.sidecar(each, namespace="b", service_account="h")
    await redirected.sidecar(client)

    for pod, wire in zip(pods, wires, strict=True):
        await reaches(client, pod)
        for port in (TCP, HTTP, UNDECLARED):
            streams = wire.streams_to(pod.address, port)
            assert streams
            assert all(each.startswith(TLS_HANDSHAKE) is mutual for each in streams)
        entry = await client.logged(authority=f"{pod.name}.{HOST}:{HTTP}")
        assert entry["upstream_cluster"] == f"outbound|{HTTP}||{HOST}"
    # A pod calls the others, and itself, as any client does.
    for pod in pods:
        await reaches(pods[0], pod)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "STRICT"])
async def test_pods_with_and_without_a_sidecar_are_called_alike_and_it_is_reported(
    mode: str, redirected: CaptureLab
) -> None:
    """In plaintext, unless one of them takes nothing else than mutual TLS."""
    mutual = mode == "STRICT"
    (meshed, bare), client = await pods_of(redirected), redirected.machine("c")
    wire = redirected.wire(meshed)
    redirected.write(
        pods=headless_service((Pod("h-0", meshed.address), Pod("h-1", bare.address, False))),
        policy=peer_authentication(mode),
    )
    await redirected.sidecar(meshed, namespace="b", service_account="h")
    await redirected.sidecar(client)

    await reaches(client, meshed)
    if mutual:
        assert await line(client.namespace, bare.address, TCP, b"hello\n") == b""
    else:
        await reaches(client, bare)
    streams = [each for port in (TCP, HTTP) for each in wire.streams_to(meshed.address, port)]
    assert all(each.startswith(TLS_HANDSHAKE) is mutual for each in streams)
    redirected.plane.store.look_for_unreachable()
    warned = [each.message for each in redirected.plane.store.warnings]
    assert any(f"1 of 2 endpoints ({bare.address}) take no mutual TLS" in each for each in warned)


async def test_a_rule_says_how_the_pods_of_a_headless_service_are_called(
    redirected: CaptureLab,
) -> None:
    (pod, _), client = await pods_of(redirected), redirected.machine("c")
    wire = redirected.wire(pod)
    redirected.write(
        pods=headless_service([Pod(pod.name, pod.address)]),
        policy=peer_authentication("PERMISSIVE"),
        rule=rule("trafficPolicy: {tls: {mode: DISABLE}}", host=HOST),
    )
    await redirected.sidecar(pod, namespace="b", service_account="h")
    await redirected.sidecar(client)

    await reaches(client, pod)
    assert not any(each.startswith(TLS_HANDSHAKE) for each in wire.streams_to(pod.address, HTTP))


async def test_subsets_and_routes_of_a_headless_service_leave_the_choice_to_the_client(
    redirected: CaptureLab,
) -> None:
    pods, client = await pods_of(redirected), redirected.machine("c")
    one = rule("subsets: [{name: one, labels: {pod: one}}]", host=HOST)
    redirected.write(
        pods=headless_service(
            [Pod("h-0", pods[0].address, labels="pod: one"), Pod("h-1", pods[1].address)]
        ),
        policy=peer_authentication("STRICT"),
        callers=CALLERS,
        rule=one,
        routes=ROUTES,
    )
    for each in pods:
        await redirected.sidecar(each, namespace="b", service_account="h")
    await redirected.sidecar(client)

    for pod in pods:
        await reaches(client, pod)
    entry = await client.logged(authority=f"h-1.{HOST}:{HTTP}")
    assert entry["upstream_cluster"] == f"outbound|{HTTP}|one|{HOST}"
    redirected.plane.store.look_for_unreachable()
    warned = [each.message for each in redirected.plane.store.warnings]
    assert any("redirected clients choose the endpoint themselves" in each for each in warned)
