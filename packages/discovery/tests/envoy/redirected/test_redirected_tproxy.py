"""Interception mode TPROXY: the application sees the client's address."""

import pytest

from capturing import CaptureLab, get
from capturing_services import service
from mesh_traffic_capture import Backend

pytestmark = pytest.mark.parametrize("redirected", list(Backend), indirect=True)


async def test_tproxy_on_an_empty_mesh_is_accepted(redirected: CaptureLab) -> None:
    machine = redirected.machine("c")
    await redirected.sidecar(machine, mode="TPROXY")

    assert '"LIVE"' in await machine.admin_text("/server_info")


async def test_tproxy_shows_the_address_of_a_client_by_ipv6_too(redirected: CaptureLab) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_http(server, 8080)
    redirected.write(s=service("s", server.address6, vip="fd99::1"))
    await redirected.sidecar(server, namespace="b", mode="TPROXY", addresses=(server.address6,))
    await redirected.sidecar(client, mode="TPROXY", addresses=(client.address6,))

    reply = await get(client.namespace, "fd99::1", 80, "s.b")

    assert reply is not None
    assert reply.json()["peer"] == client.address6
    assert "x-forwarded-client-cert" in reply.json()["headers"]


async def test_tproxy_shows_the_application_the_address_of_its_client(
    redirected: CaptureLab,
) -> None:
    server, client, plain = (
        redirected.machine("s"),
        redirected.machine("c"),
        redirected.machine("plain"),
    )
    await redirected.serve_http(server, 8080)
    redirected.write(s=service("s", server.address))
    await redirected.sidecar(server, namespace="b", mode="TPROXY")
    await redirected.sidecar(client, mode="TPROXY")

    called = await get(client.namespace, "10.9.0.1", 80, "s.b")

    assert called is not None
    assert called.status == 200
    assert called.json()["peer"] == f"::ffff:{client.address}"
    assert "x-forwarded-client-cert" in called.json()["headers"]
    called = await get(plain.namespace, server.address, 8080, "s.b")
    assert called is not None
    assert called.json()["peer"] == f"::ffff:{plain.address}"


async def test_a_workload_calls_its_own_service_in_mutual_tls(redirected: CaptureLab) -> None:
    server = redirected.machine("s")
    await redirected.serve_http(server, 8080)
    redirected.write(s=service("s", server.address))
    await redirected.sidecar(server, namespace="b", mode="TPROXY")

    reply = await get(server.namespace, "10.9.0.1", 80, "s.b")

    assert reply is not None
    assert reply.status == 200
    caller = "URI=spiffe://cluster.local/ns/b/sa/s"
    assert caller in reply.json()["headers"]["x-forwarded-client-cert"]
    assert await server.stat("listener.0.0.0.0_15006.downstream_cx_total") == 1
