"""Connections that are not requests, by address, port and SNI, and servers that speak first."""

import asyncio
import ssl
from pathlib import Path

import pytest

from capturing import CaptureLab, Machine, dial, exchange, get, line
from capturing_services import entry, peer_authentication, service
from mesh_testkit.certificates import Authority
from mesh_traffic_capture import Backend

pytestmark = pytest.mark.parametrize("redirected", [Backend.IPTABLES_NFT], indirect=True)

MESH_CONFIG = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  accessLogFile: /dev/stdout
  accessLogEncoding: JSON
  defaultConfig: {drainDuration: 1s}
"""


def server_context(name: str, directory: Path) -> ssl.SSLContext:
    """Return what an application of this name serves TLS by."""
    issued = Authority().issue(name)
    file = directory / f"{name}.pem"
    file.write_bytes(issued.key_pem + issued.chain_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


async def tls_answer(machine: Machine, address: str, port: int, name: str) -> bytes:
    """Ask over TLS of the application's own, and return the certificate of the server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await dial(machine.namespace, address, port)
    try:
        async with asyncio.timeout(10):
            await writer.start_tls(context, server_hostname=name)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await reader.read()
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert isinstance(found, bytes)
        return found
    finally:
        writer.close()


async def test_a_tcp_service_is_reached_by_its_address_in_mutual_tls(
    redirected: CaptureLab,
) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_tcp(server, 7070)
    redirected.write(
        s=service("s", server.address, port=7000, target=7070, port_name="tcp"),
        policy=peer_authentication("STRICT"),
    )
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)
    wire = redirected.wire(server)

    assert await line(client.namespace, "10.9.0.1", 7000, b"plain-words\n") == b"s:plain-words\n"

    assert b"plain-words" not in wire.everything()


async def test_a_server_that_speaks_first_is_heard_at_once_on_a_declared_tcp_port(
    redirected: CaptureLab,
) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_tcp(server, 7070, banner=b"welcome\n")
    redirected.write(
        declared=service("s", server.address, port=7000, target=7070, port_name="tcp"),
        undeclared=service(
            "u", server.address, port=7001, target=7070, port_name="x", vip="10.9.0.2", account="s"
        ),
    )
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)

    assert await line(client.namespace, "10.9.0.1", 7000) == b"welcome\n"
    # Of an undeclared port, the client's first bytes decide, and are waited for.
    assert await line(client.namespace, "10.9.0.2", 7001, b"x\n") == b"welcome\n"
    reader, writer = await dial(client.namespace, "10.9.0.2", 7001)
    listener = "listener.10.9.0.2_7001.downstream_pre_cx_active"
    await redirected.eventually(lambda: client.stat(listener), what="a connection being looked at")
    assert not reader.at_eof()
    writer.close()
    await redirected.apply(
        mesh_config=MESH_CONFIG.rstrip() + "\n  protocolDetectionTimeout: 100ms\n"
    )
    assert await line(client.namespace, "10.9.0.2", 7001) == b"welcome\n"


async def test_an_applications_own_tls_passes_a_permissive_port_as_it_is(
    redirected: CaptureLab, tmp_path: Path
) -> None:
    server, client, plain = (redirected.machine(each) for each in ("s", "c", "plain"))
    context = server_context("own.example", tmp_path)
    await redirected.serve_http(server, 8443, tls=context)
    redirected.write(
        s=service("s", server.address, port=443, target=8443, port_name="https"),
        u=service(
            "u", server.address, port=444, target=8443, port_name="x", vip="10.9.0.2", account="s"
        ),
    )
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)

    own = await tls_answer(plain, server.address, 8443, "own.example")

    assert b"own.example" in own
    assert await tls_answer(client, "10.9.0.1", 443, "own.example") == own
    assert await tls_answer(client, "10.9.0.2", 444, "own.example") == own


async def test_tls_services_without_addresses_share_a_port_by_their_names(
    redirected: CaptureLab, tmp_path: Path
) -> None:
    client, one, two = (redirected.machine(each) for each in ("c", "one", "two"))
    for machine in (one, two):
        context = server_context(f"{machine.name}.example", tmp_path)
        await redirected.serve_http(machine, 443, tls=context)
    redirected.write(
        **{
            each.name: entry(
                each.name,
                f"""\
                hosts: [{each.name}.example]
                resolution: STATIC
                ports: [{{number: 443, name: tls, protocol: TLS}}]
                endpoints: [{{address: {each.address}}}]
                """,
            )
            for each in (one, two)
        },
        mesh_config=MESH_CONFIG + "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n",
    )
    await redirected.sidecar(client)

    for machine in (one, two):
        name = f"{machine.name}.example"
        assert name.encode() in await tls_answer(client, "192.0.2.1", 443, name)
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    assert await exchange(client.namespace, "192.0.2.1", 443, request) == b""


async def test_unknown_places_are_blocked_or_let_through_as_the_mesh_says(
    redirected: CaptureLab,
) -> None:
    server, client, outside = (redirected.machine(each) for each in ("s", "c", "outside"))
    await redirected.serve_http(server, 8080)
    await redirected.serve_http(outside, 80)
    await redirected.serve_tcp(outside, 9999)
    redirected.write(s=service("s", server.address))
    await redirected.sidecar(client)

    reply = await get(client.namespace, outside.address, 80, "unknown.example")
    assert reply is not None
    assert reply.json()["app"] == "outside"
    assert await line(client.namespace, outside.address, 9999, b"x\n") == b"outside:x\n"
    assert await client.stat("cluster.PassthroughCluster;.upstream_cx_total") == 2

    await redirected.apply(
        mesh_config=MESH_CONFIG + "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"
    )

    async def blocked() -> int:
        reply = await get(client.namespace, outside.address, 80, "unknown.example")
        return reply.status if reply is not None else 0

    assert await redirected.eventually(blocked, wanted=502, what="a blocked host")
    assert await line(client.namespace, outside.address, 9999, b"x\n") == b""
    assert await client.stat("cluster.PassthroughCluster;.upstream_cx_total") == 2


async def test_requests_for_unknown_hosts_go_where_their_names_lead_if_the_mesh_says_so(
    redirected: CaptureLab,
) -> None:
    server, client, outside = (redirected.machine(each) for each in ("s", "c", "outside"))
    await redirected.serve_http(server, 8080)
    for port in (80, 8888):
        await redirected.serve_http(outside, port)
    await redirected.serve_tcp(outside, 9999)
    redirected.write(
        s=service("s", server.address),
        mesh_config=MESH_CONFIG + "  outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}\n",
    )
    await redirected.sidecar(client)

    # To a port with a listener, and to one without; nothing is where the connections go.
    for port in (80, 8888):
        reply = await get(client.namespace, server.address, port, f"{outside.address}:{port}")
        assert reply is not None
        assert reply.json()["app"] == "outside"
    looked_up = "cluster.AllowAnyDynamicDNSCluster;.upstream_rq_total"
    assert await client.stat(looked_up) == 2

    assert await line(client.namespace, outside.address, 9999, b"x\n") == b"outside:x\n"
    assert await client.stat("cluster.PassthroughCluster;.upstream_cx_total") == 1
    assert await client.stat(looked_up) == 2


async def test_of_two_tcp_services_without_addresses_the_older_has_the_port(
    redirected: CaptureLab,
) -> None:
    client, one, two = (redirected.machine(each) for each in ("c", "one", "two"))
    for machine in (one, two):
        await redirected.serve_tcp(machine, 7000)
    redirected.write(
        **{
            each.name: service(
                each.name, each.address, port=7000, target=7000, port_name="tcp", vip=None
            )
            for each in (one, two)
        },
        policy=peer_authentication("DISABLE"),
    )
    await redirected.sidecar(client)

    assert await line(client.namespace, "192.0.2.1", 7000, b"x\n") == b"one:x\n"
    # With addresses that are allocated for them, both are reached.
    model = redirected.plane.context.model
    second = redirected.machine("d")
    await redirected.sidecar(second, metadata={"DNS_CAPTURE": "true"})
    for name in ("one", "two"):
        allocated = model.by_key["b", f"{name}.b.svc.cluster.local"].auto_addresses[0]
        answer = await line(second.namespace, allocated, 7000, b"x\n")
        assert answer == f"{name}:x\n".encode()


async def test_both_versions_of_ip_are_redirected(redirected: CaptureLab) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_http(server, 8080)
    redirected.write(s=service("s", server.address6, vip="fd99::1"))
    await redirected.sidecar(server, namespace="b", addresses=(server.address, server.address6))
    await redirected.sidecar(client, addresses=(client.address, client.address6))

    reply = await get(client.namespace, "fd99::1", 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert reply.json()["peer"] == "::6"
    assert "x-forwarded-client-cert" in reply.json()["headers"]


async def test_a_workload_without_ipv4_is_redirected(redirected: CaptureLab) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_http(server, 8080)
    redirected.write(s=service("s", server.address6, vip="fd99::1"))
    await redirected.sidecar(server, namespace="b", addresses=(server.address6,))
    await redirected.sidecar(client, addresses=(client.address6,))

    reply = await get(client.namespace, "fd99::1", 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert "x-forwarded-client-cert" in reply.json()["headers"]


async def test_hosts_of_a_wildcard_are_let_through_to_where_they_were_going(
    redirected: CaptureLab, tmp_path: Path
) -> None:
    client, outside = redirected.machine("c"), redirected.machine("outside")
    context = server_context("any.example", tmp_path)
    await redirected.serve_http(outside, 443, tls=context)
    await redirected.serve_http(outside, 80)
    redirected.write(
        allowed=entry(
            "allowed",
            """\
            hosts: ["*.allowed.example"]
            resolution: NONE
            ports:
            - {number: 80, name: http, protocol: HTTP}
            - {number: 443, name: tls, protocol: TLS}
            """,
        ),
        mesh_config=MESH_CONFIG + "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n",
    )
    await redirected.sidecar(client)

    found = await tls_answer(client, outside.address, 443, "a.allowed.example")
    assert b"any.example" in found
    reply = await get(client.namespace, outside.address, 80, "a.allowed.example")
    assert reply is not None
    assert reply.json()["app"] == "outside"
    reply = await get(client.namespace, outside.address, 80, "other.example")
    assert reply is not None
    assert reply.status == 502
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await tls_answer(client, outside.address, 443, "other.example")


async def test_tls_goes_where_routes_by_sni_send_it_and_other_names_are_refused(
    redirected: CaptureLab, tmp_path: Path
) -> None:
    client, one, two = (redirected.machine(each) for each in ("c", "one", "two"))
    for machine in (one, two):
        context = server_context(f"{machine.name}.example", tmp_path)
        await redirected.serve_http(machine, 8443, tls=context)
    redirected.write(
        one=service("one", one.address, port=443, target=8443, port_name="tls"),
        two=service("two", two.address, port=443, target=8443, port_name="tls", vip="10.9.0.2"),
        policy=peer_authentication("DISABLE"),
        mesh_config=MESH_CONFIG + "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n",
        routes="""\
            apiVersion: networking.istio.io/v1
            kind: VirtualService
            metadata: {name: one, namespace: b}
            spec:
              hosts: [one.b.svc.cluster.local, "*.one.example"]
              tls:
              - match: [{sniHosts: [two.one.example]}]
                route: [{destination: {host: two.b.svc.cluster.local}}]
              - match: [{sniHosts: ["*.one.example"], port: 443}]
                route: [{destination: {host: one.b.svc.cluster.local}}]
            """,
    )
    await redirected.sidecar(client)

    assert b"two.example" in await tls_answer(client, "10.9.0.1", 443, "two.one.example")
    assert b"one.example" in await tls_answer(client, "10.9.0.1", 443, "x.one.example")
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await tls_answer(client, "10.9.0.1", 443, "other.example")
    assert b"two.example" in await tls_answer(client, "10.9.0.2", 443, "any.example")
