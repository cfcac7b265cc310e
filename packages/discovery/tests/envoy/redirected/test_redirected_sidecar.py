"""The listeners that a Sidecar object asks for, at redirected proxies."""

from pathlib import Path

from capturing import CaptureLab, get, line
from capturing_services import peer_authentication, service

SIDECAR = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {{name: default, namespace: {namespace}}}
spec:
"""


async def test_ingress_listeners_replace_the_ports_of_services(
    redirected: CaptureLab, socket_dir: Path
) -> None:
    server, client, plain = (redirected.machine(each) for each in ("s", "c", "plain"))
    path = socket_dir / "app.sock"
    await redirected.serve_http_on_socket(server, path)
    await redirected.serve_http(server, 8080)
    await redirected.serve_http(server, 9091)
    await redirected.serve_http(server, 9093)
    redirected.write(
        s=service("s", server.address, target=9080),
        sidecar=SIDECAR.format(namespace="b")
        + f"""\
  ingress:
  - port: {{number: 9080, name: http, protocol: HTTP}}
    defaultEndpoint: unix://{path}
  - port: {{number: 9090, name: http-b, protocol: HTTP}}
    defaultEndpoint: 127.0.0.1:9091
  - port: {{number: 9092, name: http-c, protocol: HTTP}}
    defaultEndpoint: 0.0.0.0:8080
  - port: {{number: 9093, name: http-d, protocol: HTTP}}
    defaultEndpoint: ":9093"
""",
        policy=peer_authentication(
            "STRICT", ports="9090: {mode: DISABLE}, 9093: {mode: DISABLE}", app="s"
        ),
    )
    await redirected.sidecar(server, namespace="b")
    await redirected.sidecar(client)

    reply = await get(client.namespace, "10.9.0.1", 80, "s.b")
    assert reply is not None
    assert reply.status == 200
    assert reply.json()["app"] == "s"
    assert reply.json()["local"] == str(path)
    reply = await get(plain.namespace, server.address, 9090, "s.b")
    assert reply is not None
    assert reply.json()["peer"] == "::ffff:127.0.0.1"
    # An endpoint without an address is where the connection was going.
    reply = await get(plain.namespace, server.address, 9093, "s.b")
    assert reply is not None
    assert (reply.status, reply.json()["app"]) == (200, "s")
    # Other ports pass under the mode of the workload.
    assert await get(plain.namespace, server.address, 8080, "s.b") is None


async def test_egress_listeners_are_bound_where_the_sidecar_says(redirected: CaptureLab) -> None:
    server, client = redirected.machine("s"), redirected.machine("c")
    await redirected.serve_http(server, 8080)
    await redirected.serve_tcp(server, 7070)
    redirected.write(
        s=service("s", server.address),
        t=service(
            "t",
            server.address,
            port=7000,
            target=7070,
            port_name="tcp",
            vip="10.9.0.2",
            account="s",
        ),
        hidden=service("hidden", server.address, vip="10.9.0.3"),
        policy=peer_authentication("DISABLE"),
        sidecar=SIDECAR.format(namespace="a")
        + """\
  egress:
  - port: {number: 80, name: http, protocol: HTTP}
    bind: 127.0.0.1
    captureMode: NONE
    hosts: [b/s.b.svc.cluster.local]
  - port: {number: 7000, name: tcp, protocol: TCP}
    captureMode: NONE
    hosts: [b/t.b.svc.cluster.local]
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
""",
    )
    await redirected.sidecar(client)

    reply = await get(client.namespace, "127.0.0.1", 80, "s.b")
    assert reply is not None
    assert reply.status == 200
    assert await line(client.namespace, "127.0.0.1", 7000, b"x\n") == b"s:x\n"
    assert await get(client.namespace, "10.9.0.3", 80, "hidden.b") is None
