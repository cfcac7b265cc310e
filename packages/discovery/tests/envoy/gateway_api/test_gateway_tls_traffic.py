"""TLS of Gateways of the Gateway API at a real Envoy: clients' certificates, Istio's options."""

from gateway_api_scenes import ROUTER_LABEL, gateway, route, service
from gateway_documents import secret
from gateway_scenes import client_context, fails_to_shake_hands, mesh_context
from mesh_testkit.certificates import Authority
from scenarios import Scene

VALIDATION = (
    "tls: {{frontend: {{default: {{validation: {{mode: {mode}, "
    "caCertificateRefs: [{{group: '', kind: ConfigMap, name: roots}}]}}}}}}}}, listeners:"
)


async def test_a_gateway_validates_its_clients_by_the_roots_of_a_config_map(scene: Scene) -> None:
    echo, port = await scene.echo("a"), scene.port()
    clients = Authority()
    listener = (
        f"{{name: a, port: {port}, protocol: HTTPS, tls: {{certificateRefs: [{{name: s}}]}}}}"
    )
    lines = "".join(f"    {line}\n" for line in clients.root_pem.decode().splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: roots, namespace: b}\n"
    await scene.apply(
        secret=secret("s", scene.authority.issue("shop.example")),
        a=service("a", echo),
        roots=f"{head}data:\n  ca.crt: |\n{lines}",
        gateway=gateway(listener).replace("listeners:", VALIDATION.format(mode="AllowValidOnly")),
        routes=route("{backendRefs: [{name: a, port: 80}]}"),
    )
    router = await scene.router(namespace="b", labels={ROUTER_LABEL: "gw"})
    url = f"https://shop.example:{port}/"
    without = client_context(scene.authority, scene.tmp_path)
    known = client_context(scene.authority, scene.tmp_path, clients.issue("client.example"))
    other = client_context(scene.authority, scene.tmp_path, Authority().issue("client.example"))

    assert (await router.get(url, ssl=known)).version == "a"
    assert await fails_to_shake_hands(router, url, without)
    assert await fails_to_shake_hands(router, url, other)

    insecure = VALIDATION.format(mode="AllowInsecureFallback")
    await scene.apply(gateway=gateway(listener).replace("listeners:", insecure))
    for each in (known, without, other):
        assert (await router.get(url, ssl=each)).version == "a"


async def test_a_listener_shows_the_routers_own_certificate_of_the_mesh(scene: Scene) -> None:
    echo, port = await scene.echo("a"), scene.port()
    options = "options: {gateway.istio.io/tls-terminate-mode: ISTIO_SIMPLE}"
    await scene.apply(
        a=service("a", echo),
        gateway=gateway(f"{{name: a, port: {port}, protocol: HTTPS, tls: {{{options}}}}}"),
        routes=route("{backendRefs: [{name: a, port: 80}]}"),
    )
    router = await scene.router(namespace="b", labels={ROUTER_LABEL: "gw"})
    context = mesh_context(scene, "a", "c")
    answer = await router.get(f"https://shop.example:{port}/", ssl=context)
    assert (answer.status, answer.version) == (200, "a")
