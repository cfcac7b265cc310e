"""HTTPRoutes at a real Envoy: what requests meet."""

import aiohttp
import pytest

from gateway_api_scenes import API, alias, gateway, opened_site, route, service
from scenarios import Scene

A, B = "backendRefs: [{name: a, port: 80}]", "backendRefs: [{name: b, port: 80}]"


async def test_the_most_specific_match_has_a_request(scene: Scene) -> None:
    site = await opened_site(
        scene,
        routes=route(f"{{{A}}}", name="all")
        + "---\n"
        + route(
            f"{{matches: [{{path: {{value: /foo}}}}], {B}}}, "
            f"{{matches: [{{path: {{type: Exact, value: /foo/exact}}}}], {A}}}, "
            f"{{matches: [{{path: {{type: RegularExpression, value: '/v[0-9]+'}}}}], {B}}}, "
            f"{{matches: [{{path: {{value: /foo}}, headers: [{{name: x, value: y}}]}}], {A}}}",
            name="some",
        ),
    )
    found = {
        path: await site.version(path)
        for path in ("/", "/foo", "/foo/", "/foo/bar", "/foobar", "/foo/exact", "/v1", "/v1/x")
    }
    assert found == {
        "/": "a",
        "/foo": "b",
        "/foo/": "b",
        "/foo/bar": "b",
        "/foobar": "a",
        "/foo/exact": "a",
        "/v1": "b",
        "/v1/x": "a",
    }
    assert await site.version("/foo", x="y") == "a"


async def test_hostnames_have_their_own_routes_and_others_get_404(scene: Scene) -> None:
    site = await opened_site(
        scene,
        routes=route(f"{{{A}}}", name="one", hostnames="one.example")
        + "---\n"
        + route(f"{{{B}}}", name="wild", hostnames="'*.example'"),
    )
    answers = {
        host: (await site.router.get(site.url(host=host))).version
        for host in ("one.example", "two.example", "other")
    }
    assert answers == {"one.example": "a", "two.example": "b", "other": ""}


async def test_a_prefix_or_the_whole_path_is_rewritten(scene: Scene) -> None:
    def change(path: str, new: str) -> str:
        return (
            f"{{matches: [{{path: {{value: {path}}}}}], {A}, "
            f"filters: [{{type: URLRewrite, urlRewrite: {{hostname: in.example, path: {new}}}}}]}}"
        )

    prefix = "{type: ReplacePrefixMatch, replacePrefixMatch: "
    site = await opened_site(
        scene,
        routes=route(
            ", ".join(
                (
                    change("/old", prefix + "/new}"),
                    change("/away", prefix + "/}"),
                    change("/all", "{type: ReplaceFullPath, replaceFullPath: /one}"),
                )
            )
        ),
    )
    wanted = {
        "/old": "/new",
        "/old/x?q=1": "/new/x?q=1",
        "/away": "/",
        "/away/": "/",
        "/away/x": "/x",
        "/all/of/it?q=1": "/one?q=1",
    }
    found = {path: (await site.router.get(site.url(path))).seen for path in wanted}
    assert {path: seen.path for path, seen in found.items()} == wanted
    assert {seen.host for seen in found.values()} == {"in.example"}


async def test_a_redirect_changes_scheme_host_and_path(scene: Scene) -> None:
    def redirect(path: str, fields: str) -> str:
        return (
            f"{{matches: [{{path: {{value: {path}}}}}], "
            f"filters: [{{type: RequestRedirect, requestRedirect: {{{fields}}}}}]}}"
        )

    site = await opened_site(
        scene,
        routes=route(
            ", ".join(
                (
                    redirect("/host", "hostname: other.example, statusCode: 301"),
                    redirect("/tls", "scheme: https, port: 443"),
                    redirect(
                        "/old",
                        "path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}, port: 80",
                    ),
                    redirect("/away", "path: {type: ReplacePrefixMatch, replacePrefixMatch: /}"),
                )
            )
        ),
    )
    found = {}
    for path in ("/host", "/tls/x", "/old/x", "/away/x"):
        answer = await site.router.get(site.url(path), headers={"host": "shop.example"})
        found[path] = answer.status, answer.headers.get("location")
    assert found == {
        "/host": (301, f"http://other.example:{site.port}/host"),
        "/tls/x": (302, "https://shop.example/tls/x"),
        "/old/x": (302, "http://shop.example/new/x"),
        "/away/x": (302, f"http://shop.example:{site.port}/x"),
    }


async def test_headers_are_changed_for_the_rule_and_for_one_backend(scene: Scene) -> None:
    site = await opened_site(
        scene,
        routes=route(
            "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: "
            "{set: [{name: x-set, value: '100%'}], remove: [x-away]}}, "
            "{type: ResponseHeaderModifier, responseHeaderModifier: "
            "{add: [{name: x-answer, value: '1'}]}}], "
            "backendRefs: [{name: a, port: 80, filters: [{type: RequestHeaderModifier, "
            "requestHeaderModifier: {add: [{name: x-backend, value: a}]}}]}]}"
        ),
    )
    answer = await site.router.get(site.url(), headers={"x-set": "0", "x-away": "1"})
    seen = answer.seen.headers
    assert (seen["x-set"], seen.get("x-away"), seen["x-backend"]) == ("100%", None, "a")
    assert answer.headers["x-answer"] == "1"


async def test_requests_are_mirrored(scene: Scene, eventually) -> None:  # type: ignore[no-untyped-def]
    mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}}}"
    site = await opened_site(scene, routes=route(f"{{filters: [{mirror}], {A}}}"))
    assert await site.version("/copied") == "a"

    async def copies() -> list[str]:
        return [each.path for each in site.b.requests]

    await eventually(copies, wanted=["/copied"], what="the copy")


async def test_weights_share_requests_and_bad_backends_answer_500(scene: Scene) -> None:
    def weights(a: int, other: str) -> str:
        return f"backendRefs: [{{name: a, port: 80, weight: {a}}}, {other}]"

    site = await opened_site(
        scene,
        routes=route(
            f"{{matches: [{{path: {{value: /zero}}}}], {weights(0, '{name: b, port: 80}')}}}, "
            f"{{matches: [{{path: {{value: /gone}}}}], backendRefs: [{{name: gone, port: 80}}]}}, "
            f"{{matches: [{{path: {{value: /half}}}}], {weights(1, '{name: gone, port: 80}')}}}, "
            f"{{matches: [{{path: {{value: /both}}}}], {weights(1, '{name: b, port: 80}')}}}"
        ),
    )
    assert {await site.version("/zero") for _ in range(10)} == {"b"}
    assert await site.version("/gone") == "500"
    assert {await site.version("/half") for _ in range(60)} == {"a", "500"}
    assert {await site.version("/both") for _ in range(60)} == {"a", "b"}


async def test_a_timeout_bounds_a_request_and_codes_are_tried_again(scene: Scene) -> None:
    site = await opened_site(
        scene,
        routes=route(
            f"{{matches: [{{path: {{value: /slow}}}}], timeouts: {{request: 200ms}}, {A}}}, "
            f"{{matches: [{{path: {{value: /once}}}}], retry: {{attempts: 0}}, {B}}}, "
            f"{{retry: {{codes: [500], attempts: 2, backoff: 1ms}}, {B}}}"
        ),
    )
    site.a.answer(delay_s=2)
    assert await site.version("/slow") == "504"
    site.b.answer(status=500, times=2)
    assert (await site.router.get(site.url("/tried"))).status == 200
    assert site.b.count == 3
    site.b.answer(status=500, times=1)
    assert (await site.router.get(site.url("/once"))).status == 500


async def test_preflights_are_answered_by_the_gateway(scene: Scene) -> None:
    cors = "{allowOrigins: ['https://*.shop.example'], allowMethods: [PUT], maxAge: 60}"
    site = await opened_site(
        scene, routes=route(f"{{filters: [{{type: CORS, cors: {cors}}}], {A}}}")
    )

    async def preflight(origin: str) -> tuple[int, str | None, str]:
        answer = await site.router.get(
            site.url(),
            method="OPTIONS",
            headers={"origin": origin, "access-control-request-method": "PUT"},
        )
        return answer.status, answer.headers.get("access-control-allow-origin"), answer.version

    assert await preflight("https://www.shop.example") == (200, "https://www.shop.example", "")
    assert (await preflight("https://evil.example"))[1:] == (None, "")


async def test_a_backend_of_another_namespace_needs_a_grant(scene: Scene) -> None:
    other = await scene.echo("other")
    site = await opened_site(
        scene,
        other=service("other", other, namespace="c"),
        routes=route("{backendRefs: [{name: other, namespace: c, port: 80}]}"),
    )
    assert await site.version() == "500"
    grant = """
        apiVersion: gateway.networking.k8s.io/v1beta1
        kind: ReferenceGrant
        metadata: {name: g, namespace: c}
        spec:
          from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: b}]
          to: [{group: "", kind: Service}]
        """
    await scene.apply(grant=grant)
    assert await site.version() == "other"
    await scene.apply(grant=None)
    assert await site.version() == "500"


async def test_a_service_that_comes_gets_its_requests(scene: Scene) -> None:
    site = await opened_site(scene, routes=route("{backendRefs: [{name: late, port: 80}]}"))
    assert await site.version() == "500"
    await scene.apply(late=service("late", site.a))
    assert await site.version() == "a"


async def test_a_listener_with_a_more_specific_hostname_has_its_requests_alone(
    scene: Scene,
) -> None:
    site = await opened_site(
        scene, routes=route(f"{{{A}}}", parent="{name: gw, sectionName: wide}")
    )
    port = f"port: {site.port}, protocol: HTTP"
    await scene.apply(
        gateway=gateway(
            f"{{name: wide, {port}}}", f"{{name: narrow, {port}, hostname: '*.narrow.example'}}"
        )
    )
    assert await site.version() == "a"
    assert (await site.router.get(site.url(host="x.narrow.example"))).status == 404


async def test_routers_of_other_gateways_and_namespaces_open_nothing(scene: Scene) -> None:
    site = await opened_site(scene, routes=route(f"{{{A}}}"))
    elsewhere = await scene.router(
        namespace="c", labels={"gateway.networking.k8s.io/gateway-name": "gw"}
    )
    assert await elsewhere.envoy.get("/listeners?format=json") == {}
    assert await site.version() == "a"


async def test_routers_behind_the_service_of_an_address_open_a_gateway(scene: Scene) -> None:
    site = await opened_site(scene, routes=route(f"{{{A}}}"))
    router = await scene.router(namespace="c", labels={"app": "ingress"})
    own = f"{{name: http, port: {site.port}, protocol: HTTP}}"
    address = "{type: Hostname, value: ingress.c.svc.cluster.local}"
    changed = gateway(own).replace("{gateway", f"{{addresses: [{address}], gateway")
    ingress = f"""
        apiVersion: networking.istio.io/v1
        kind: ServiceEntry
        metadata: {{name: ingress, namespace: c}}
        spec:
          hosts: [ingress.c.svc.cluster.local]
          location: MESH_INTERNAL
          resolution: STATIC
          ports: [{{number: {site.port}, name: http, protocol: HTTP}}]
          endpoints: [{{address: {router.address}}}]
        """
    await scene.apply(ingress=ingress, gateway=changed)
    assert (await router.get(site.url())).version == "a"
    assert await site.router.envoy.get("/listeners?format=json") == {}


async def test_a_listener_set_adds_listeners_to_a_gateway_of_another_namespace(
    scene: Scene,
) -> None:
    site = await opened_site(scene, routes=route(f"{{{A}}}"))
    port = scene.port()
    parent = "parentRef: {name: gw, namespace: b}"
    listener = f"listeners: [{{name: more, port: {port}, protocol: HTTP}}]"
    added = (
        f"{API}kind: ListenerSet\nmetadata: {{name: set, namespace: c}}\n"
        f"spec: {{{parent}, {listener}}}\n"
    )
    backend = "backendRefs: [{name: c, port: 80}]"
    c, allows = await scene.echo("c"), "allowedListeners: {namespaces: {from: All}}"
    own = gateway(f"{{name: http, port: {site.port}, protocol: HTTP}}")
    await scene.apply(
        gateway=own.replace("listeners:", f"{allows}, listeners:"),
        c=service("c", c, namespace="c"),
        added=added,
        more=route(f"{{{backend}}}", namespace="c", parent="{kind: ListenerSet, name: set}"),
    )
    answer = await site.router.get(f"http://shop.example:{port}/")
    assert (answer.status, answer.version) == (200, "c")
    assert await site.version() == "a"

    await scene.apply(gateway=own)
    with pytest.raises(aiohttp.ClientConnectionError):
        await site.router.get(f"http://shop.example:{port}/")
    assert await site.version() == "a"


async def test_a_filter_that_one_backend_can_not_have_takes_its_requests_away(
    scene: Scene,
) -> None:
    rewrite = "{type: URLRewrite, urlRewrite: {hostname: in.example}}"
    site = await opened_site(
        scene,
        routes=route(
            f"{{matches: [{{path: {{value: /odd}}}}], "
            f"backendRefs: [{{name: a, port: 80, filters: [{rewrite}]}}]}}, {{{A}}}"
        ),
    )
    assert (await site.version("/odd"), await site.version("/")) == ("500", "a")
    (warning,) = scene.plane.store.warnings
    assert "URLRewrite is not supported at one backend" in warning.message


async def test_a_backend_of_type_external_name_is_the_service_that_it_names(scene: Scene) -> None:
    site = await opened_site(
        scene, route("{backendRefs: [{name: old, port: 80}]}"), other=alias("old", "a")
    )
    assert await site.version() == "a"

    await scene.apply(other=alias("old", "b"))
    assert await site.version() == "b"
