"""The wire and the connections of redirected workloads, with each backend of the rules."""

import json
import shutil
import subprocess
from functools import partial

import pytest

from capturing import CaptureLab, Machine, get, line
from capturing_services import peer_authentication, service
from mesh_traffic_capture import Backend

pytestmark = pytest.mark.parametrize("redirected", list(Backend), indirect=True)

SECRET = "a-secret-that-no-one-else-may-read"
EXCLUDED = 8081
CALLS = 5
_OBSERVER = """
table inet observer {
  counter application { }
  counter own-inbound { }
  counter loop { }
  counter onward { }
  chain output {
    type filter hook output priority 50;
    ct state != new return
    meta skgid != 1337 tcp dport 15001 counter name application
    meta skgid 1337 tcp dport 15006 counter name own-inbound
    meta skgid 1337 tcp dport 15001 counter name loop reject with tcp reset
    meta skgid 1337 tcp dport 8080 counter name onward
  }
}
"""
"""Counts connections behind the rules, and refuses those from Envoy to its own outbound port."""


def observe(machine: Machine) -> None:
    if shutil.which("nft") is None:
        pytest.skip("there is no nft, by which connections are counted: install nftables")
    nft = ("nft", "-f", "-")
    machine.namespace.run(lambda: subprocess.run(nft, input=_OBSERVER, text=True, check=True))


def observed(machine: Machine) -> dict[str, int]:
    """Return how many connections of each sort there were."""
    nft = ("nft", "-j", "list", "counters", "table", "inet", "observer")
    listed = json.loads(machine.namespace.run(lambda: subprocess.check_output(nft)))
    counters = [each["counter"] for each in listed["nftables"] if "counter" in each]
    return {each["name"]: each["packets"] for each in counters}


async def test_a_secret_is_on_the_wire_only_by_a_port_that_is_excluded(
    redirected: CaptureLab,
) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    for port in (8080, EXCLUDED):
        await redirected.serve_http(server, port)
    await redirected.serve_tcp(server, 7070)
    pods = partial(service, target=7070, port_name="tcp", account="s")
    redirected.write(
        four=service("s", server.address),
        six=service("six", server.address6, vip="fd99::1", account="s"),
        tcp=pods("tcp", server.address, port=7000, vip="10.9.0.2"),
        headless=pods("pods", server.address, port=7070, vip=None),
        policy=peer_authentication("STRICT"),
    )
    await redirected.sidecar(
        server,
        namespace="b",
        addresses=(server.address, server.address6),
        excluded_inbound_ports=frozenset({EXCLUDED}),
    )
    await redirected.sidecar(
        client,
        addresses=(client.address, client.address6),
        excluded_outbound_ports=frozenset({EXCLUDED}),
    )
    wire = redirected.wire(server)

    for address, host in (("10.9.0.1", "s.b"), ("fd99::1", "six.b")):
        reply = await get(client.namespace, address, 80, host, f"/{SECRET}")
        assert reply is not None
        assert reply.status == 200
        assert "x-forwarded-client-cert" in reply.json()["headers"]
    for address, port in (("10.9.0.2", 7000), (server.address, 7070)):
        answer = await line(client.namespace, address, port, f"{SECRET}\n".encode())
        assert answer == f"s:{SECRET}\n".encode()

    for address, port in ((server.address, 8080), (server.address6, 8080), (server.address, 7070)):
        assert wire.streams_to(address, port), f"nothing was sent to {address} port {port}"
    assert SECRET.encode() not in wire.frames()

    for address in (server.address, server.address6):
        reply = await get(client.namespace, address, EXCLUDED, "s.b", f"/{SECRET}")
        assert reply is not None
        assert reply.status == 200
    assert wire.frames().count(SECRET.encode()) == 2


async def test_excluded_ports_go_past_the_proxies(redirected: CaptureLab) -> None:
    server, client, plain = (redirected.machine(each) for each in ("s", "c", "plain"))
    for machine in (server, plain):
        for port in (8080, EXCLUDED):
            await redirected.serve_http(machine, port)
    redirected.write(s=service("s", server.address), policy=peer_authentication("STRICT"))
    excluded = frozenset({EXCLUDED})
    await redirected.sidecar(server, namespace="b", excluded_inbound_ports=excluded)
    await redirected.sidecar(client, excluded_outbound_ports=excluded)
    inbound = "listener.0.0.0.0_15006.downstream_cx_total"
    outbound = "listener.0.0.0.0_15001.downstream_cx_total"

    # Into the server, which takes nothing but mutual TLS elsewhere.
    reply = await get(plain.namespace, server.address, EXCLUDED, "s.b")
    assert reply is not None
    assert reply.json()["peer"] == f"::ffff:{plain.address}"
    assert await server.stat(inbound) == 0
    assert await get(plain.namespace, server.address, 8080, "s.b") is None
    assert await server.stat("listener.0.0.0.0_15006.no_filter_chain_match") == 1

    # Out of the client.
    reply = await get(client.namespace, plain.address, EXCLUDED, "plain")
    assert reply is not None
    assert reply.json()["app"] == "plain"
    assert await client.stat(outbound) == 0
    reply = await get(client.namespace, plain.address, 8080, "plain")
    assert reply is not None
    assert await client.stat(outbound) == 1


async def test_what_the_proxy_sends_itself_does_not_come_back_to_it(
    redirected: CaptureLab,
) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_http(server, 8080)
    redirected.write(s=service("s", server.address), policy=peer_authentication("STRICT"))
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)
    for machine in (server, client):
        observe(machine)

    for machine in (client, server):
        for _ in range(CALLS):
            reply = await get(machine.namespace, "10.9.0.1", 80, "s.b")
            assert reply is not None
            assert reply.status == 200

    for machine in (client, server):
        assert await machine.stat("listener.0.0.0.0_80.downstream_cx_total") == CALLS
        # Connections that no service has, such as its own that come back, stay there.
        assert await machine.stat("listener.0.0.0.0_15001.downstream_cx_total") == 0
    seen = observed(client)
    assert seen["application"] == CALLS
    assert seen["onward"] >= 1
    assert seen["own-inbound"] == seen["loop"] == 0
    seen = observed(server)
    assert seen["application"] == CALLS
    # The server called itself: its proxy sent that to its own inbound port, and once.
    assert 1 <= seen["own-inbound"] <= CALLS
    assert seen["loop"] == 0
    inbound = "listener.0.0.0.0_15006.downstream_cx_total"
    assert await server.stat(inbound) == observed(client)["onward"] + seen["own-inbound"]

    # Rules that know the proxy by another group do make the loop.
    redirected.capture(client, proxy_uids=frozenset({4711}), proxy_gids=frozenset({4711}))
    await get(client.namespace, server.address, 9090, "s.b")
    assert observed(client)["loop"] >= 1
