"""Gateways as part of the mesh: the TLS that they speak to services, and take from its proxies."""

import json
import ssl

from documents import peer_authentication
from gateway_documents import S, gateway, secret, server, service, to, virtual_service
from gateway_scenes import client_context, fails_to_shake_hands, mesh_context, plain_service
from scenarios import Scene


async def test_gateway_speaks_mutual_tls_to_services_of_the_mesh_and_is_named(
    scene: Scene,
) -> None:
    router, port = await scene.router(), scene.port()
    address = scene.network.address()
    await scene.apply(
        strict=peer_authentication("STRICT"),
        s=service(address, serviceAccount="s"),
        gw=gateway(server("HTTP", port, "*")),
        vs=virtual_service("a.example", http=[{"route": to()}]),
    )
    sidecar = await scene.sidecar("s", namespace="b", service_account="s", address=address)
    await scene.echo("v1", address=sidecar.app_address)

    answer = await router.get(f"http://a.example:{port}/x")

    assert (answer.status, answer.version) == (200, "v1")
    details = answer.seen.headers["x-forwarded-client-cert"]
    assert "URI=spiffe://cluster.local/ns/b/sa/gw" in details


async def test_gateway_of_the_mesh_takes_clients_of_the_mesh_alone(scene: Scene) -> None:
    await plain_service(scene)
    router, port = await scene.router(), scene.port()
    await scene.apply(
        gw=gateway(server("HTTPS", port, "*", tls={"mode": "ISTIO_MUTUAL"})),
        vs=virtual_service("a.example", http=[{"route": to()}]),
    )
    context = mesh_context(scene, "a", "c")

    answer = await router.get(f"https://a.example:{port}/", ssl=context)
    assert answer.status == 200
    assert "URI=spiffe://cluster.local/ns/a/sa/c" in answer.seen.headers["x-forwarded-client-cert"]

    outside = client_context(scene.authority, scene.tmp_path, scene.authority.issue("x.example"))
    outside.check_hostname = False
    outside.load_verify_locations(cadata=scene.plane.authority.root_pem.decode())
    assert await fails_to_shake_hands(router, f"https://a.example:{port}/", outside)


async def test_gateway_asks_a_server_outside_with_the_certificate_of_a_rule(scene: Scene) -> None:
    tls = scene.tls("outside.example")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(cadata=scene.authority.root_pem.decode())
    upstream = await scene.echo("outside", tls=tls)
    router, port = await scene.router(), scene.port()
    entry = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "outside", "namespace": "b"},
        "spec": {
            "hosts": ["outside.example"],
            "resolution": "STATIC",
            "ports": [
                {"number": 80, "name": "http", "protocol": "HTTP", "targetPort": upstream.port}
            ],
            "endpoints": [{"address": upstream.address}],
        },
    }
    rule = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "outside", "namespace": "b"},
        "spec": {
            "host": "outside.example",
            "trafficPolicy": {
                "tls": {"mode": "MUTUAL", "sni": "outside.example", "credentialName": "outside"}
            },
        },
    }
    await scene.apply(
        outside=secret(
            "outside", scene.authority.issue("gw.example"), roots=scene.authority.root_pem
        ),
        entry=json.dumps(entry),
        rule=json.dumps(rule),
        gw=gateway(server("HTTP", port, "*")),
        vs=virtual_service("a.example", http=[{"route": to("outside.example")}]),
    )

    answer = await router.get(f"http://a.example:{port}/")

    assert (answer.status, answer.version) == (200, "outside")
    assert upstream.server_names == ["outside.example"]


async def test_proxies_before_a_gateway_tell_the_clients_address(scene: Scene) -> None:
    await plain_service(scene)
    router, port = await scene.router(), scene.port()
    topology = {"gatewayTopology": {"numTrustedProxies": 1}}
    mesh = {
        "apiVersion": "mesh.istio.io/v1alpha1",
        "kind": "MeshConfig",
        "spec": {"accessLogFile": "/dev/stdout", "defaultConfig": topology},
    }
    await scene.apply(
        mesh_config=json.dumps(mesh),
        gw=gateway(server("HTTP", port, "*")),
        vs=virtual_service(S, "a.example", http=[{"route": to()}]),
    )
    given = {"X-Forwarded-For": "192.0.2.1, 192.0.2.7"}

    answer = await router.get(f"http://a.example:{port}/", headers=given)

    assert answer.seen.headers["x-envoy-external-address"] == "192.0.2.7"
    assert answer.seen.headers["x-forwarded-for"].startswith("192.0.2.1, 192.0.2.7")
