"""Requests between redirected workloads: mutual TLS by the mode of the port, and by host."""

from capturing import CaptureLab, Machine, exchange, get, get_http2, line
from capturing_services import peer_authentication, service

SPIFFE = "spiffe://cluster.local/ns/a/sa/c"
VIP = "10.9.0.1"
_HANDSHAKE = b"\x16\x03"
"""Begins a TLS connection."""


async def pair(redirected: CaptureLab, **documents: str) -> tuple[Machine, Machine]:
    """Start a client's sidecar in namespace a and a server's in b, for port 80 of s."""
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_http(server, 8080)
    await redirected.serve_http(server, 9090)
    redirected.write(**{"s": service("s", server.address), **documents})
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)
    return server, client


async def status(machine: Machine, address: str, port: int, host: str) -> int:
    """Ask, and return the status; 0 if the connection was closed."""
    reply = await get(machine.namespace, address, port, host)
    return reply.status if reply is not None else 0


async def test_permissive_names_a_redirected_caller_and_takes_plaintext_too(
    redirected: CaptureLab,
) -> None:
    server, client = await pair(redirected)
    plain = redirected.machine("plain")

    reply = await get(client.namespace, VIP, 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert f"URI={SPIFFE}" in reply.json()["headers"]["x-forwarded-client-cert"]
    reply = await get(plain.namespace, server.address, 8080, "s.b")
    assert reply is not None
    assert reply.status == 200
    assert "x-forwarded-client-cert" not in reply.json()["headers"]


async def test_what_goes_over_the_wire_between_redirected_workloads_is_tls(
    redirected: CaptureLab,
) -> None:
    server, client = await pair(redirected)
    wire = redirected.wire(server)

    reply = await get(client.namespace, VIP, 80, "s.b", "/secret-path")

    assert reply is not None
    assert reply.status == 200
    streams = wire.streams_to(server.address, 8080)
    assert streams
    assert all(each.startswith(_HANDSHAKE) for each in streams)
    assert b"secret-path" not in wire.everything()
    assert b"HTTP/1.1" not in wire.everything()


async def test_strict_closes_plaintext_and_logs_that_no_chain_takes_it(
    redirected: CaptureLab,
) -> None:
    server, client = await pair(redirected, policy=peer_authentication("STRICT"))
    plain = redirected.machine("plain")

    assert await status(client, VIP, 80, "s.b") == 200
    assert await status(plain, server.address, 8080, "s.b") == 0
    await server.logged(response_flags="NR")


async def test_a_port_is_excepted_from_strict_and_redirected_clients_know_it(
    redirected: CaptureLab,
) -> None:
    server, client = await pair(
        redirected,
        mesh=peer_authentication("STRICT"),
        policy=peer_authentication("STRICT", ports="8080: {mode: DISABLE}", app="s"),
    )
    plain = redirected.machine("plain")

    reply = await get(client.namespace, VIP, 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert "x-forwarded-client-cert" not in reply.json()["headers"]
    assert await status(plain, server.address, 8080, "s.b") == 200
    assert await status(plain, server.address, 9090, "s.b") == 0


async def test_a_port_that_no_service_has_is_passed_to_the_workload(redirected: CaptureLab) -> None:
    server, _ = await pair(redirected)
    plain = redirected.machine("plain")

    assert await status(plain, server.address, 9090, "anything") == 200
    assert await server.stat("cluster.InboundPassthroughCluster;.upstream_cx_total") == 1


async def test_a_workload_that_calls_its_own_service_comes_in_by_its_own_proxy(
    redirected: CaptureLab,
) -> None:
    server, _ = await pair(redirected)

    reply = await get(server.namespace, VIP, 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert (
        "URI=spiffe://cluster.local/ns/b/sa/s" in reply.json()["headers"]["x-forwarded-client-cert"]
    )


async def test_the_application_sees_connections_from_an_address_of_the_proxys_own(
    redirected: CaptureLab,
) -> None:
    server, client = await pair(redirected)

    reply = await get(client.namespace, VIP, 80, "s.b")

    assert reply is not None
    assert reply.json()["peer"] == "::ffff:127.0.0.6"
    assert reply.json()["local"] == f"::ffff:{server.address}"


async def test_the_capturing_ports_themselves_close_connections(redirected: CaptureLab) -> None:
    server, client = await pair(redirected)
    plain = redirected.machine("plain")
    request = b"GET / HTTP/1.1\r\nHost: s.b\r\n\r\n"

    for machine in (server, client):
        for port in (15001, 15006):
            assert await exchange(machine.namespace, "127.0.0.1", port, request) == b""
    assert await status(plain, server.address, 15006, "s.b") == 0
    # Passed to the workload as any port is, and closed there.
    assert await status(plain, server.address, 15001, "s.b") == 503
    assert await status(client, VIP, 80, "s.b") == 200
    for port in (15001, 15006):
        connections = f"listener.0.0.0.0_{port}.downstream_cx_total"
        assert await server.stat(connections) <= 4


async def test_an_undeclared_port_takes_both_versions_of_http_and_tcp_by_their_chains(
    redirected: CaptureLab,
) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_tcp(server, 7070)
    await redirected.serve_http(server, 8080)
    redirected.write(
        web=service("s", server.address, port_name="web"),
        raw=service(
            "raw",
            server.address,
            port=7000,
            target=7070,
            port_name="raw",
            vip="10.9.0.2",
            account="s",
        ),
        policy=peer_authentication("STRICT"),
    )
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)

    reply = await get(client.namespace, VIP, 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert f"URI={SPIFFE}" in reply.json()["headers"]["x-forwarded-client-cert"]
    # The application has no HTTP/2; the proxies forward as they were asked.
    await get_http2(client.namespace, VIP, 80, "s.b")
    entry = await server.logged(protocol="HTTP/2")
    assert entry["downstream_peer_uri_san"] == SPIFFE
    assert entry["upstream_cluster"] == "inbound|8080||"
    assert await line(client.namespace, "10.9.0.2", 7000, b"hello\n") == b"s:hello\n"
    entry = await server.logged(upstream_cluster="inbound|7070||")
    assert entry["method"] is None
