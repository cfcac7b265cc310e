"""The mesh config with real Envoys: paths, headers, retries and limits of all proxies."""

from planes import eventually
from scenarios import Scene

MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  accessLogFile: /dev/stdout
  accessLogEncoding: JSON
  {fields}
"""


def mesh_config(fields: str) -> str:
    return MESH.format(fields=fields)


async def test_slashes_are_merged_before_paths_are_compared_if_the_mesh_says_so(
    scene: Scene,
) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        route="""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s, namespace: b}
spec:
  hosts: [s]
  http:
  - {match: [{uri: {exact: /a/b}}], directResponse: {status: 418}}
  - {route: [{destination: {host: s}}]}
"""
    )

    async def status(path: str) -> bytes:
        request = f"GET {path} HTTP/1.1\r\nhost: s.b\r\nconnection: close\r\n\r\n"
        line = await reviews.client.send(80, request.encode())
        return line.split()[1]

    assert [await status(path) for path in ("/a/b", "//a//b", "/x/../a/b")] == [
        b"418",
        b"200",
        b"418",
    ]

    await scene.apply(mesh_config=mesh_config("pathNormalization: {normalization: MERGE_SLASHES}"))
    assert [await status(path) for path in ("//a//b", "/a%2Fb")] == [b"418", b"200"]

    await scene.apply(
        mesh_config=mesh_config("pathNormalization: {normalization: DECODE_AND_MERGE_SLASHES}")
    )
    assert await status("/a%2Fb") == b"418"

    await scene.apply(mesh_config=mesh_config("pathNormalization: {normalization: NONE}"))
    assert await status("/x/../a/b") == b"200"


async def test_the_headers_that_proxies_set_are_those_of_the_mesh(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        route="""\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s, namespace: b}
spec:
  hosts: [s]
  http: [{rewrite: {authority: inner.example}, route: [{destination: {host: s}}]}]
"""
    )
    usual = await reviews.client.get("http://s.b/")
    assert usual.seen.headers["x-envoy-attempt-count"] == "1"
    assert "x-request-id" in usual.seen.headers
    assert "x-forwarded-host" not in usual.seen.headers
    assert "x-envoy-upstream-service-time" in usual.headers

    await scene.apply(
        mesh_config=mesh_config(
            "defaultConfig: {proxyHeaders: {attemptCount: {disabled: true},"
            " requestId: {disabled: true}, envoyDebugHeaders: {disabled: true},"
            " server: {value: shop}, xForwardedHost: {enabled: true}}}"
        )
    )

    changed = await reviews.client.get("http://s.b/")
    assert "x-envoy-attempt-count" not in changed.seen.headers
    assert "x-request-id" not in changed.seen.headers
    assert changed.seen.host == "inner.example"
    assert changed.seen.headers["x-forwarded-host"] == "s.b"
    assert "x-envoy-upstream-service-time" not in changed.headers
    assert changed.headers["server"] == "shop"


async def test_requests_are_tried_again_as_the_mesh_says(scene: Scene) -> None:
    reviews = await scene.reviews()
    for echo in (reviews.v1, reviews.v2):
        echo.answer(status=503)
    assert (await reviews.client.get("http://s.b/")).status == 503
    assert reviews.v1.count + reviews.v2.count == 1

    await scene.apply(
        mesh_config=mesh_config("defaultHttpRetryPolicy: {attempts: 2, retryOn: '503'}")
    )

    assert (await reviews.client.get("http://s.b/")).status == 503
    assert reviews.v1.count + reviews.v2.count == 4


async def test_headers_with_underscores_are_refused_if_the_mesh_says_so(scene: Scene) -> None:
    reviews = await scene.reviews()
    headers = {"x_y": "1"}
    assert (await reviews.client.get("http://s.b/", headers=headers)).status == 200

    await scene.apply(
        mesh_config=mesh_config(
            "defaultConfig:"
            " {connectionSettings: {httpHeadersWithUnderscoresAction: REJECT_REQUEST}}"
        )
    )

    assert (await reviews.client.get("http://s.b/", headers=headers)).status == 400
    assert (await reviews.client.get("http://s.b/")).status == 200


async def test_limits_of_the_mesh_are_those_of_services_without_a_rule(scene: Scene) -> None:
    reviews = await scene.reviews()

    await scene.apply(
        mesh_config=mesh_config(
            "defaultTrafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}"
        )
    )

    cluster = "cluster.outbound|80||s.b.svc.cluster.local;"
    assert await reviews.client.stat(f"{cluster}.circuit_breakers.default.remaining_cx") == 7


async def test_clusters_have_the_names_in_statistics_that_the_mesh_gives_them(
    scene: Scene,
) -> None:
    reviews = await scene.reviews()

    await scene.apply(
        mesh_config=mesh_config("outboundClusterStatName: to_%SERVICE_NAME%_%SERVICE_PORT%")
    )

    assert (await reviews.client.get("http://s.b/")).status == 200
    assert await reviews.client.stat("cluster.to_s_80;.upstream_rq_total") == 1


async def test_an_encoding_of_the_access_log_that_changes_reaches_proxies(scene: Scene) -> None:
    reviews = await scene.reviews()
    await reviews.client.get("http://s.b/json")
    await reviews.client.logged(path="/json")

    await scene.apply(mesh_config=MESH.format(fields="").replace("JSON", "TEXT"))
    await reviews.client.get("http://s.b/text")

    async def has_text() -> bool:
        return '"GET /text HTTP/1.1" 200' in reviews.client.process.text

    await eventually(has_text, what="a line of text")
