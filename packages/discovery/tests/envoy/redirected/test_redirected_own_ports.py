"""Nothing that is redirected, or that its Envoy calls, reaches the proxy's own pages.

An application listens in the place of Envoy's admin interface and of the agent's pages.
"""

from capturing import CaptureLab, get
from capturing_services import peer_authentication, service

ADMIN = 15000


async def test_a_service_does_not_lead_to_the_proxy_s_own_ports(redirected: CaptureLab) -> None:
    server, plain = redirected.machine("s"), redirected.machine("plain")
    for port in (8080, 15004, 15053):
        await redirected.serve_http(server, port)
    redirected.write(
        s=service("s", server.address),
        debug=service("debug", server.address, target=15004, vip="10.9.0.2", account="s"),
        dns=service("dns", server.address, target=15053, vip="10.9.0.3", account="s"),
        policy=peer_authentication("PERMISSIVE"),
    )
    await redirected.sidecar(server, namespace="b")

    reply = await get(plain.namespace, server.address, 8080, "s.b")

    assert reply is not None
    assert reply.status == 200
    assert await get(plain.namespace, server.address, 15004, "debug.b") is None
    assert await get(plain.namespace, server.address, 15053, "dns.b") is None


async def test_an_ingress_listener_does_not_lead_to_an_admin_port_of_another_number(
    redirected: CaptureLab,
) -> None:
    server, plain = redirected.machine("s"), redirected.machine("plain")
    await redirected.serve_http(server, 15900)
    redirected.write(
        s=service("s", server.address, target=9080),
        sidecar="""\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: b}
spec:
  ingress:
  - port: {number: 9080, name: http, protocol: HTTP}
    defaultEndpoint: 127.0.0.1:15900
""",
        policy=peer_authentication("PERMISSIVE"),
    )
    await redirected.sidecar(
        server, namespace="b", metadata={"PROXY_CONFIG": {"proxyAdminPort": 15900}}
    )

    reply = await get(plain.namespace, server.address, 9080, "s.b")

    assert reply is None or reply.status == 503


async def test_the_admin_interface_is_reached_neither_at_its_port_nor_by_the_inbound_port(
    redirected: CaptureLab,
) -> None:
    server, plain = redirected.machine("s"), redirected.machine("plain")
    await redirected.serve_http(server, ADMIN, address="::ffff:127.0.0.1")
    redirected.write(s=service("s", server.address), policy=peer_authentication("PERMISSIVE"))
    await redirected.sidecar(server, namespace="b")

    for port in (ADMIN, 15006):
        reply = await get(plain.namespace, server.address, port, f"127.0.0.1:{ADMIN}")
        assert reply is None or reply.status == 503


async def test_no_service_leads_clients_to_their_own_admin_interface(
    redirected: CaptureLab,
) -> None:
    client = redirected.machine("c")
    await redirected.serve_http(client, ADMIN)
    redirected.write(
        trap=service("trap", "127.0.0.1", target=ADMIN, account="c"),
        name="""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: name, namespace: b}
spec:
  hosts: [name.example]
  addresses: [10.9.0.2]
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 15000}]
  endpoints: [{address: localhost}]
""",
    )
    await redirected.sidecar(client)

    for address, host in (("10.9.0.1", "trap.b"), ("10.9.0.2", "name.example")):
        reply = await get(client.namespace, address, 80, host)
        assert reply is not None
        assert reply.status == 503
