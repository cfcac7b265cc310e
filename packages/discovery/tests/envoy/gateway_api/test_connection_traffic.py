"""TLSRoutes, TCPRoutes and HTTPS listeners at a real Envoy."""

import asyncio
import ssl

from gateway_api_scenes import ROUTER_LABEL, alias, gateway, opened_site, route, service
from gateway_documents import secret
from gateway_scenes import client_context
from scenarios import MeshEnvoy, Scene


async def said(
    router: MeshEnvoy, port: int, context: ssl.SSLContext | None = None, sni: str | None = None
) -> bytes | None:
    """Send a line; return what comes, None if the connection ends before."""
    try:
        reader, writer = await asyncio.open_connection(
            router.outbound_address, port, ssl=context, server_hostname=sni
        )
    except (ssl.SSLError, ConnectionError):
        return None
    try:
        writer.write(b"hello\n")
        return await asyncio.wait_for(reader.readline(), 5)
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        writer.close()


async def router_of(scene: Scene) -> MeshEnvoy:
    return await scene.router(namespace="b", labels={ROUTER_LABEL: "gw"})


async def test_connections_go_to_the_backends_of_a_tcp_route(scene: Scene) -> None:
    one, two, port = await scene.tcp_echo("one"), await scene.tcp_echo("two"), scene.port()
    await scene.apply(
        one=service("one", one),
        two=service("two", two),
        gateway=gateway(f"{{name: tcp, port: {port}, protocol: TCP}}"),
        route=route(
            "{backendRefs: [{name: one, port: 80}, {name: two, port: 80}]}", kind="TCPRoute"
        ),
    )
    router = await router_of(scene)
    assert {await said(router, port) for _ in range(40)} == {b"one hello\n", b"two hello\n"}
    await scene.apply(route=route("{backendRefs: [{name: gone, port: 80}]}", kind="TCPRoute"))
    assert await said(router, port) in (None, b"")


async def test_tls_is_passed_through_by_its_server_name(scene: Scene) -> None:
    one = await scene.tcp_echo("one", tls=scene.tls("one.example"))
    two = await scene.tcp_echo("two", tls=scene.tls("two.example"))
    port = scene.port()
    await scene.apply(
        one=service("one", one, protocol="tls"),
        two=service("two", two, protocol="tls"),
        gateway=gateway(f"{{name: tls, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        routes="---\n".join(
            route(
                f"{{backendRefs: [{{name: {name}, port: 80}}]}}",
                kind="TLSRoute",
                name=name,
                hostnames=f"{name}.example",
            )
            for name in ("one", "two")
        ),
    )
    router = await router_of(scene)
    context = client_context(scene.authority, scene.tmp_path)
    found = {
        name: await said(router, port, context, f"{name}.example")
        for name in ("one", "two", "other")
    }
    assert found == {"one": b"one hello\n", "two": b"two hello\n", "other": None}
    everything = route("{backendRefs: [{name: two, port: 80}]}", kind="TLSRoute", name="rest")
    await scene.apply(rest=everything)
    context.check_hostname = False
    assert await said(router, port, context, "other.example") == b"two hello\n"
    assert await said(router, port, context, "one.example") == b"one hello\n"


async def test_tls_ends_at_the_gateway_and_goes_on_by_its_server_name(scene: Scene) -> None:
    one, two, port = await scene.tcp_echo("one"), await scene.tcp_echo("two"), scene.port()
    tls = "{mode: Terminate, certificateRefs: [{name: shop}]}"
    await scene.apply(
        one=service("one", one),
        two=service("two", two),
        shop=secret("shop", scene.authority.issue("one.example", "two.example")),
        gateway=gateway(f"{{name: tls, port: {port}, protocol: TLS, tls: {tls}}}"),
        routes="---\n".join(
            route(
                f"{{backendRefs: [{{name: {name}, port: 80}}]}}",
                kind="TLSRoute",
                name=name,
                hostnames=f"{name}.example",
            )
            for name in ("one", "two")
        ),
    )
    router = await router_of(scene)
    context = client_context(scene.authority, scene.tmp_path)
    assert await said(router, port, context, "one.example") == b"one hello\n"
    assert await said(router, port, context, "two.example") == b"two hello\n"


GRANT = """
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: g, namespace: certs}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: b}]
  to: [{group: "", kind: Secret, name: shop}]
"""


async def test_https_has_the_certificate_of_a_namespace_that_grants_it(scene: Scene) -> None:
    site = await opened_site(scene, routes=route("{backendRefs: [{name: a, port: 80}]}"))
    port = scene.port()
    tls = "{certificateRefs: [{name: shop, namespace: certs}]}"
    await scene.apply(
        shop=secret("shop", scene.authority.issue("shop.example"), namespace="certs"),
        gateway=gateway(
            f"{{name: https, port: {port}, protocol: HTTPS, hostname: shop.example, tls: {tls}}}",
            f"{{name: http, port: {site.port}, protocol: HTTP}}",
        ),
    )
    assert await site.version() == "a"
    assert str(port) not in str(await site.router.envoy.get("/listeners?format=json"))
    await scene.apply(grant=GRANT)
    context = client_context(scene.authority, scene.tmp_path)
    answer = await site.router.get(f"https://shop.example:{port}/x", ssl=context)
    assert (answer.version, answer.seen.path) == ("a", "/x")
    assert answer.seen.headers["x-forwarded-proto"] == "https"


async def test_a_backend_of_type_external_name_is_the_service_that_it_names(scene: Scene) -> None:
    one, port = await scene.tcp_echo("one"), scene.port()
    await scene.apply(
        one=service("one", one),
        alias=alias("old", "one", "tcp"),
        gateway=gateway(f"{{name: tcp, port: {port}, protocol: TCP}}"),
        route=route("{backendRefs: [{name: old, port: 80}]}", kind="TCPRoute"),
    )
    assert await said(await router_of(scene), port) == b"one hello\n"
