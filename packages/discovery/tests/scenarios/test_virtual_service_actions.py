"""VirtualServices seen in traffic: what routes do with the requests that they take."""

import time

import pytest

from planes import eventually
from scenarios import Scene
from virtual_services import VERSIONS, only, to, virtual_service

ALL = "http://s.b/"


async def test_a_redirect_has_the_code_the_host_and_the_port_that_it_says(scene: Scene) -> None:
    reviews = await scene.reviews()
    good = "redirect: {authority: new, redirectCode: 308, derivePort: FROM_REQUEST_PORT}"
    await scene.apply(vs=virtual_service(good))

    answer = await reviews.client.get("http://s.b/path?q=1")
    assert (answer.status, answer.headers["location"]) == (308, "http://new/path?q=1")

    (problem,) = await scene.apply(
        mistaken=True, vs=virtual_service("redirect: {uri: /, redirectCode: 305}")
    )
    assert problem.field == "spec.http[0].redirect.redirectCode"
    assert (await reviews.client.get(ALL)).status == 308


async def test_a_rewrite_changes_the_path_and_the_host(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        vs=virtual_service(
            "match: [{uri: {prefix: /api}}], rewrite: {uri: /x, authority: new}, " + only(),
            r"match: [{uri: {prefix: /n}}], rewrite: {uriRegexRewrite: {match: '^/n/(\d+)$', "
            r"rewrite: '/id?n=\1'}}, " + only(),
            "match: [{uri: {exact: /e}}], rewrite: {uri: /whole}, " + only(),
        )
    )

    seen = (await reviews.client.get("http://s.b/api/y")).seen
    assert (seen.path, seen.host) == ("/x/y", "new")
    assert seen.headers["x-envoy-original-path"] == "/api/y"
    assert (await reviews.client.get("http://s.b/n/12")).seen.path == "/id?n=12"
    assert (await reviews.client.get("http://s.b/e")).seen.path == "/whole"


async def test_a_timeout_ends_a_request(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(vs=virtual_service("timeout: 300ms, " + only()))
    for each in (reviews.v1, reviews.v2):
        each.answer(delay_s=1)

    assert (await reviews.client.get("http://s.b/slow")).status == 504
    assert (await reviews.client.logged(path="/slow"))["response_flags"] == "UT"
    assert (await reviews.client.get(ALL, headers={"grpc-timeout": "5S"})).status == 504

    await scene.apply(vs=virtual_service(only()))
    assert (await reviews.client.get(ALL)).status == 200


@pytest.mark.slow
async def test_without_a_timeout_a_slow_answer_is_waited_for(scene: Scene) -> None:
    """Envoy's own limit, which is not to hold, is 15 s."""
    reviews = await scene.reviews()
    await scene.apply(vs=virtual_service("retries: {attempts: 0}, " + only()))
    for each in (reviews.v1, reviews.v2):
        each.answer(delay_s=16)

    assert (await reviews.client.get(ALL)).status == 200


async def test_requests_are_retried_on_the_conditions_that_are_named(scene: Scene) -> None:
    reviews = await scene.reviews()
    echoes = (reviews.v1, reviews.v2)
    for each in echoes:
        each.answer(status=503)

    await scene.apply(vs=virtual_service("retries: {attempts: 2, retryOn: '503'}, " + only()))
    assert (await reviews.client.get(ALL)).status == 503
    counts = [seen.headers["x-envoy-attempt-count"] for e in echoes for seen in e.requests]
    assert sorted(counts) == ["1", "2", "3"]

    for each in echoes:
        each.requests.clear()
    await scene.apply(vs=None)
    assert (await reviews.client.get(ALL)).status == 503
    assert sum(each.count for each in echoes) == 1

    for each in echoes:
        each.reset()
    await reviews.v2.refuse()
    assert {(await reviews.client.get(ALL)).version for _ in range(6)} == {"v1"}


async def test_with_no_attempts_nothing_is_tried_again(scene: Scene) -> None:
    reviews = await scene.reviews()
    await reviews.v2.refuse()
    await scene.apply(vs=virtual_service("retries: {attempts: 0}, " + only()))

    statuses = {(await reviews.client.get(ALL)).status for _ in range(12)}

    assert statuses == {200, 503}


async def test_the_meshs_own_retries_are_those_of_routes_that_say_nothing(scene: Scene) -> None:
    reviews = await scene.reviews()
    for each in (reviews.v1, reviews.v2):
        each.answer(status=503)
    await scene.apply(
        mesh_config="""
          apiVersion: mesh.istio.io/v1alpha1
          kind: MeshConfig
          spec: {defaultHttpRetryPolicy: {attempts: 4, retryOn: '503'}}
        """
    )

    await reviews.client.get(ALL)
    assert reviews.v1.count + reviews.v2.count == 5


async def test_an_abort_never_reaches_the_upstream_and_a_delay_comes_before_the_timeout(
    scene: Scene,
) -> None:
    reviews = await scene.reviews()
    abort = "fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, "
    delay = "fault: {delay: {fixedDelay: 600ms, percentage: {value: 100}}}, "
    await scene.apply(
        vs=virtual_service(
            "match: [{uri: {prefix: /abort}}], " + abort + only(),
            "timeout: 200ms, " + delay + only(),
        )
    )

    assert (await reviews.client.get("http://s.b/abort")).status == 418
    assert (await reviews.client.logged(path="/abort"))["response_flags"] == "FI"
    assert reviews.v1.count + reviews.v2.count == 0

    before = time.monotonic()
    assert (await reviews.client.get(ALL)).status == 200
    assert time.monotonic() - before > 0.5


async def test_a_mirror_gets_the_same_request(scene: Scene) -> None:
    reviews = await scene.reviews()
    mirror = "mirror: {host: s.b.svc.cluster.local, subset: v2}, "
    await scene.apply(rule=VERSIONS, vs=virtual_service(mirror + only("v1")))

    answer = await reviews.client.get("http://s.b/x", headers={"a": "b"})

    assert answer.version == "v1"

    async def mirrored() -> bool:
        return reviews.v2.count == 1

    await eventually(mirrored, what="the copy")
    copy = reviews.v2.requests[0]
    assert (copy.path, copy.host, copy.headers["a"]) == ("/x", "s.b", "b")


async def test_cors_answers_a_preflight_of_an_allowed_origin_itself(scene: Scene) -> None:
    reviews = await scene.reviews()
    policy = "corsPolicy: {allowOrigins: [{exact: 'https://o'}], allowMethods: [GET], "
    await scene.apply(
        vs=virtual_service(
            "match: [{uri: {prefix: /i}}], " + policy + "unmatchedPreflights: IGNORE}, " + only(),
            policy + "maxAge: 24h}, " + only(),
        )
    )

    async def preflight(path: str, origin: str) -> tuple[int, str | None, str | None, bool]:
        answer = await reviews.client.get(
            f"http://s.b{path}",
            method="OPTIONS",
            headers={"origin": origin, "access-control-request-method": "GET"},
        )
        headers = answer.headers
        return (
            answer.status,
            headers.get("access-control-allow-origin"),
            headers.get("access-control-max-age"),
            bool(answer.version),
        )

    assert await preflight("/", "https://o") == (200, "https://o", "86400", False)
    assert await preflight("/", "https://p") == (200, None, None, True)
    assert await preflight("/i", "https://p") == (200, None, None, False)
    answer = await reviews.client.get(ALL, headers={"origin": "https://o"})
    assert answer.headers["access-control-allow-origin"] == "https://o"


async def test_headers_are_set_added_and_removed(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        vs=virtual_service(
            "headers: {request: {set: {host: new, a: '%%-%REQ(b)%'}, add: {c: '2'}, remove: [d]}, "
            "response: {set: {e: f}, remove: [server]}}, " + only()
        )
    )

    answer = await reviews.client.get(ALL, headers={"b": "x", "c": "1", "d": "y"})

    seen = answer.seen
    assert (seen.host, seen.headers["a"]) == ("new", "%-x")
    assert [value for name, value in seen.header_list if name.lower() == "c"] == ["1", "2"]
    assert "d" not in seen.headers
    assert answer.headers["e"] == "f"
    assert "server" not in answer.headers


async def test_a_direct_response_needs_no_upstream(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(vs=virtual_service("directResponse: {status: 503, body: {string: x}}"))

    answer = await reviews.client.get(ALL)

    assert (answer.status, answer.body) == (503, "x")
    assert reviews.v1.count + reviews.v2.count == 0


async def test_headers_of_a_destination_are_changed_for_its_requests_alone(scene: Scene) -> None:
    reviews = await scene.reviews()
    first = "{destination: {host: s.b.svc.cluster.local, subset: v1}, weight: 1, "
    first += "headers: {request: {set: {to: one, host: first}}}}"
    await scene.apply(rule=VERSIONS, vs=virtual_service(f"route: [{first}, {to('v2', weight=1)}]"))

    answers = [await reviews.client.get(ALL) for _ in range(30)]

    seen = {(each.version, each.seen.headers.get("to"), each.seen.host) for each in answers}
    assert seen == {("v1", "one", "first"), ("v2", None, "s.b")}


async def test_a_route_to_a_host_that_the_sidecar_leaves_out_works(scene: Scene) -> None:
    reviews = await scene.reviews()
    sidecar = """
      apiVersion: networking.istio.io/v1
      kind: Sidecar
      metadata: {name: default, namespace: a}
      spec: {egress: [{hosts: [./*]}]}
    """
    await scene.apply(
        sidecar=sidecar,
        t="""
          apiVersion: networking.istio.io/v1
          kind: ServiceEntry
          metadata: {name: t, namespace: a}
          spec:
            hosts: [t.a.svc.cluster.local]
            resolution: STATIC
            ports: [{number: 80, name: http, protocol: HTTP}]
        """,
        vs=virtual_service(only(), hosts="t.a.svc.cluster.local", namespace="a"),
    )

    assert (await reviews.client.get("http://t.a/")).version in {"v1", "v2"}
