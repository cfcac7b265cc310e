"""Plain HTTP and HTTPS servers of gateways, their routes and their certificates."""

import pytest

from gateway_documents import gateway, secret, server, to, virtual_service
from gateway_scenes import client_context, fails_to_shake_hands, plain_service
from mesh_testkit.certificates import Authority
from planes import eventually
from scenarios import MeshEnvoy, Scene

SIMPLE = {"mode": "SIMPLE", "credentialName": "shop"}


async def eventually_believed(
    router: MeshEnvoy, url: str, authority: Authority, scene: Scene
) -> None:
    """Wait until a server shows a certificate of an authority."""
    context = client_context(authority, scene.tmp_path)

    async def believed() -> bool:
        return not await fails_to_shake_hands(router, url, context)

    await eventually(believed, what=f"a certificate of the other authority at {url}")


async def test_https_server_answers_to_its_sni_name_and_routes_by_host(scene: Scene) -> None:
    """Scenario 47."""
    await plain_service(scene)
    router, port = await scene.router(), scene.port()
    await scene.apply(
        shop=secret("shop", scene.authority.issue("a.example")),
        gw=gateway(server("HTTPS", port, "a.example", tls=SIMPLE)),
        vs=virtual_service("a.example", http=[{"route": to()}]),
    )
    context = client_context(scene.authority, scene.tmp_path)

    answer = await router.get(f"https://a.example:{port}/x", ssl=context)
    assert (answer.status, answer.version, answer.seen.path) == (200, "v1", "/x")
    assert answer.headers["server"] == "istio-envoy"
    assert answer.seen.headers["x-forwarded-proto"] == "https"

    assert await fails_to_shake_hands(router, f"https://b.example:{port}/", context)

    other = await router.get(
        f"https://a.example:{port}/", ssl=context, headers={"Host": "b.example"}
    )
    assert other.status == 404


async def test_plain_server_redirects_to_https_with_and_without_routes(scene: Scene) -> None:
    """Scenario 48."""
    router, port = await scene.router(), scene.port()
    redirecting = server("HTTP", port, "a.example", tls={"httpsRedirect": True})
    await scene.apply(gw=gateway(redirecting))

    answer = await router.get(f"http://a.example:{port}/x/y?q=1", headers={"Host": "a.example"})
    assert (answer.status, answer.headers["location"]) == (301, "https://a.example/x/y?q=1")

    await plain_service(scene)
    await scene.apply(vs=virtual_service("a.example", http=[{"route": to()}]))
    answer = await router.get(f"http://a.example:{port}/x", headers={"Host": "a.example"})
    assert (answer.status, answer.headers["location"]) == (301, "https://a.example/x")


async def test_virtual_services_of_one_host_add_up_and_catch_all_comes_last(
    scene: Scene,
) -> None:
    """Scenario 49."""
    await plain_service(scene)
    router, port = await scene.router(), scene.port()
    await scene.apply(
        gw=gateway(server("HTTP", port, "*.example")),
        old=virtual_service(
            "a.example",
            name="old",
            created="2020-01-01T00:00:00Z",
            http=[{"directResponse": {"status": 418}}],
        ),
        new=virtual_service(
            "a.example",
            name="new",
            created="2021-01-01T00:00:00Z",
            http=[{"match": [{"uri": {"prefix": "/x"}}], "route": to()}],
        ),
    )

    assert (await router.get(f"http://a.example:{port}/x")).version == "v1"
    assert (await router.get(f"http://a.example:{port}/y")).status == 418
    assert (await router.get(f"http://b.example:{port}/x")).status == 404


async def test_plain_server_without_routes_answers_404(scene: Scene) -> None:
    router, port = await scene.router(), scene.port()
    await scene.apply(gw=gateway(server("HTTP", port, "*")))
    assert (await router.get(f"http://a.example:{port}/")).status == 404


async def test_host_of_a_namespace_is_for_virtual_services_of_that_namespace_alone(
    scene: Scene,
) -> None:
    """Scenario 52."""
    await plain_service(scene)
    router, port = await scene.router(), scene.port()
    await scene.apply(
        gw=gateway(server("HTTP", port, "b/a.example")),
        vs=virtual_service("a.example", namespace="a", http=[{"route": to()}]),
    )
    assert (await router.get(f"http://a.example:{port}/")).status == 404

    await scene.apply(vs=virtual_service("a.example", namespace="b", http=[{"route": to()}]))
    assert (await router.get(f"http://a.example:{port}/")).status == 200


async def test_mutual_tls_needs_a_certificate_that_optional_mutual_tls_only_checks(
    scene: Scene,
) -> None:
    """Scenario 50."""
    await plain_service(scene)
    router, port, optional = await scene.router(), scene.port(), scene.port()
    issued = scene.authority.issue("a.example")
    await scene.apply(
        shop=secret("shop", issued, roots=scene.authority.root_pem),
        gw=gateway(
            server("HTTPS", port, "a.example", name="must", tls={**SIMPLE, "mode": "MUTUAL"}),
            server(
                "HTTPS",
                optional,
                "a.example",
                name="may",
                tls={**SIMPLE, "mode": "OPTIONAL_MUTUAL"},
            ),
        ),
        vs=virtual_service("a.example", http=[{"route": to()}]),
    )
    without = client_context(scene.authority, scene.tmp_path)
    mine = scene.authority.issue("spiffe://outside/client", "client.example")
    good = client_context(scene.authority, scene.tmp_path, mine)
    foreign = Authority().issue("client.example")
    bad = client_context(scene.authority, scene.tmp_path, foreign)
    must, may = f"https://a.example:{port}/", f"https://a.example:{optional}/"

    assert await fails_to_shake_hands(router, must, without)
    assert await fails_to_shake_hands(router, must, bad)
    answer = await router.get(must, ssl=good)
    details = answer.seen.headers["x-forwarded-client-cert"]
    assert "URI=spiffe://outside/client" in details
    assert "DNS=client.example" in details
    assert "Subject=" in details
    assert "Cert=" in details

    assert (await router.get(may, ssl=without)).status == 200
    assert (await router.get(may, ssl=good)).status == 200
    assert await fails_to_shake_hands(router, may, bad)


@pytest.mark.slow
async def test_secret_that_comes_later_is_used_and_other_servers_work_meanwhile(
    scene: Scene,
) -> None:
    """Scenario 54."""
    await plain_service(scene)
    router, port = await scene.router(), scene.port()
    await scene.apply(
        there=secret("there", scene.authority.issue("b.example")),
        gw=gateway(
            server("HTTPS", port, "a.example", name="a", tls=SIMPLE),
            server("HTTPS", port, "b.example", name="b", tls={**SIMPLE, "credentialName": "there"}),
        ),
        vs=virtual_service("a.example", "b.example", http=[{"route": to()}]),
    )
    context = client_context(scene.authority, scene.tmp_path)
    streams = len(scene.plane.server.clients())

    assert await fails_to_shake_hands(router, f"https://a.example:{port}/", context)
    assert (await router.get(f"https://b.example:{port}/", ssl=context)).status == 200

    await scene.apply(shop=secret("shop", scene.authority.issue("a.example")))
    assert (await router.get(f"https://a.example:{port}/", ssl=context)).status == 200

    renewed = Authority()
    await scene.apply(shop=secret("shop", renewed.issue("a.example")))
    await eventually_believed(router, f"https://a.example:{port}/", renewed, scene)
    assert len(scene.plane.server.clients()) == streams
