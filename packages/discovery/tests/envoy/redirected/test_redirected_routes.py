"""Routes of VirtualServices for redirected connections, and client TLS of DestinationRules."""

import ssl
from pathlib import Path

from capturing import CaptureLab, get, line
from capturing_services import entry, peer_authentication, service
from mesh_testkit.certificates import Authority


def tcp_service(name: str, address: str, vip: str) -> str:
    return service(name, address, port=7000, target=7070, port_name="tcp", vip=vip)


async def test_connections_go_where_routes_for_tcp_send_them(redirected: CaptureLab) -> None:
    client, one, two = (redirected.machine(each) for each in ("c", "one", "two"))
    for machine in (one, two):
        await redirected.serve_tcp(machine, 7070)
    redirected.write(
        one=tcp_service("one", one.address, "10.9.0.1"),
        two=tcp_service("two", two.address, "10.9.0.2"),
        policy=peer_authentication("DISABLE"),
        routes="""\
            apiVersion: networking.istio.io/v1
            kind: VirtualService
            metadata: {name: one, namespace: b}
            spec:
              hosts: [one.b.svc.cluster.local]
              tcp:
              - match: [{sourceLabels: {app: other}}]
                route: [{destination: {host: one.b.svc.cluster.local}}]
              - route:
                - {destination: {host: two.b.svc.cluster.local}, weight: 1}
                - {destination: {host: one.b.svc.cluster.local}, weight: 0}
            """,
    )
    await redirected.sidecar(client, metadata={"LABELS": {"app": "web"}})

    assert await line(client.namespace, "10.9.0.1", 7000, b"hello\n") == b"two:hello\n"

    await redirected.apply(routes="")
    assert await line(client.namespace, "10.9.0.1", 7000, b"hello\n") == b"one:hello\n"


async def test_tls_that_a_rule_originates_offers_nothing_of_the_mesh(
    redirected: CaptureLab, tmp_path: Path
) -> None:
    client, outside = redirected.machine("c"), redirected.machine("outside")
    issued = Authority().issue("out.example")
    file = tmp_path / "server.pem"
    file.write_bytes(issued.key_pem + issued.chain_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    await redirected.serve_http(outside, 443, tls=context)
    await redirected.serve_http(outside, 80)
    redirected.write(
        out=entry(
            "out",
            f"""\
            hosts: [out.example]
            resolution: STATIC
            ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 443}}]
            endpoints: [{{address: {outside.address}}}]
            """,
        ),
        rule="""\
            apiVersion: networking.istio.io/v1
            kind: DestinationRule
            metadata: {name: out, namespace: a}
            spec:
              host: out.example
              trafficPolicy: {tls: {mode: SIMPLE, sni: out.example, insecureSkipVerify: true}}
            """,
    )
    await redirected.sidecar(client)
    wire = redirected.wire(outside)

    reply = await get(client.namespace, "192.0.2.1", 80, "out.example")

    assert reply is not None
    assert reply.status == 200
    (hello,) = wire.streams_to(outside.address, 443)
    assert b"out.example" in hello
    assert b"istio" not in hello


async def test_a_route_to_another_port_of_a_service_without_endpoints_arrives_at_it(
    redirected: CaptureLab,
) -> None:
    """The connection was going to the port 80; that the other is its own target says enough."""
    client, outside = redirected.machine("c"), redirected.machine("outside")
    await redirected.serve_http(outside, 8080)
    redirected.write(
        out=entry(
            "out",
            """\
            hosts: [out.example]
            resolution: NONE
            ports:
            - {number: 80, name: http, protocol: HTTP}
            - {number: 8080, name: http-alt, protocol: HTTP, targetPort: 8080}
            """,
        ),
        routes="""\
            apiVersion: networking.istio.io/v1
            kind: VirtualService
            metadata: {name: out, namespace: b}
            spec:
              hosts: [out.example]
              http:
              - match: [{port: 80}]
                route: [{destination: {host: out.example, port: {number: 8080}}}]
            """,
    )
    await redirected.sidecar(client)

    reply = await get(client.namespace, outside.address, 80, "out.example")

    assert reply is not None
    assert (reply.status, reply.json()["app"]) == (200, "outside")
