"""Connection pools, outlier detection and the choice of a rule, seen in traffic."""

import asyncio
from collections import Counter

from destination_rules import policy, rule
from planes import eventually
from scenarios import Scene

CLUSTER = "cluster.outbound|80||s.b.svc.cluster.local;"


async def test_a_full_connection_pool_answers_503(scene: Scene) -> None:
    reviews = await scene.reviews()
    pool = "{connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}}"
    await scene.apply(rule=policy(pool))
    for each in (reviews.v1, reviews.v2):
        each.answer(delay_s=0.5)

    answers = await asyncio.gather(*(reviews.client.get("http://s.b/slow") for _ in range(10)))

    counts = Counter(each.status for each in answers)
    assert set(counts) == {200, 503}
    refused = next(each for each in answers if each.status == 503)
    assert refused.headers["x-envoy-overloaded"] == "true"
    entry = await reviews.client.logged(response_code=503)
    assert entry["response_flags"] == "UO"
    overflows = await reviews.client.stat(f"{CLUSTER}.upstream_rq_pending_overflow")
    assert overflows == counts[503]


async def test_an_endpoint_that_fails_is_left_out_for_a_while(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=policy(
            "{loadBalancer: {simple: ROUND_ROBIN}, outlierDetection: {consecutive5xxErrors: 3, "
            "interval: 100ms, baseEjectionTime: 1s, maxEjectionPercent: 100}}"
        )
    )
    reviews.v1.answer(status=500)

    async def only_good() -> bool:
        await reviews.client.get("http://s.b/")
        return await reviews.client.stat(f"{CLUSTER}.membership_healthy") == 1

    await eventually(only_good, what="the ejection")
    assert {(await reviews.client.get("http://s.b/")).version for _ in range(4)} == {"v2"}

    reviews.v1.answer()

    async def back() -> bool:
        return await reviews.client.stat(f"{CLUSTER}.membership_healthy") == 2

    await eventually(back, what="its return")
    versions = {(await reviews.client.get("http://s.b/")).version for _ in range(4)}
    assert versions == {"v1", "v2"}


async def test_no_more_endpoints_are_ejected_than_may_be(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=policy(
            "{outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, "
            "baseEjectionTime: 60s, maxEjectionPercent: 10}}"
        )
    )
    for each in (reviews.v1, reviews.v2):
        each.answer(status=500)

    async def one_ejected() -> bool:
        for _ in range(4):
            await reviews.client.get("http://s.b/")
        return await reviews.client.stat(f"{CLUSTER}.outlier_detection.ejections_active") == 1

    await eventually(one_ejected, what="the first ejection")
    for _ in range(6):
        await reviews.client.get("http://s.b/")
    assert await reviews.client.stat(f"{CLUSTER}.outlier_detection.ejections_active") == 1
    assert await reviews.client.stat(f"{CLUSTER}.outlier_detection.ejections_overflow") > 0
    # The other one is still asked, and not for want of healthy endpoints.
    assert await reviews.client.stat(f"{CLUSTER}.lb_healthy_panic") == 0


async def test_codes_that_a_rule_names_count_as_errors(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=policy(
            "{outlierDetection: {consecutive5xxErrors: 2, outlierDetectionHttpErrorCodes: [429], "
            "interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}}"
        )
    )
    reviews.v1.answer(status=429)

    async def ejected() -> bool:
        await reviews.client.get("http://s.b/")
        return await reviews.client.stat(f"{CLUSTER}.membership_healthy") == 1

    await eventually(ejected, what="the ejection")


async def test_settings_of_a_port_replace_those_of_all_ports(scene: Scene) -> None:
    server = scene.network.address()
    await scene.apply(
        service=SIDECAR.format(address=server),
        strict=STRICT,
        rule=policy("{tls: {mode: DISABLE}}"),
    )
    s = await scene.sidecar("s", namespace="b", service_account="s", address=server)
    await scene.echo("v1", address=s.app_address)
    client = await scene.sidecar("c", namespace="a", service_account="c")

    assert (await client.get("http://s.b/")).status == 503

    ports = "portLevelSettings: [{port: {number: 80}, connectionPool: {http: {maxRetries: 1}}}]"
    await scene.apply(rule=policy(f"{{tls: {{mode: DISABLE}}, {ports}}}"))

    # The port has no tls of its own: it is found out again what the endpoint takes.
    answer = await client.get("http://s.b/")
    assert answer.status == 200
    assert "x-forwarded-client-cert" in answer.seen.headers


async def test_a_rule_of_the_clients_namespace_comes_before_the_services(scene: Scene) -> None:
    reviews = await scene.reviews()
    fewer = "{{connectionPool: {{http: {{maxRequestsPerConnection: {}}}}}}}"
    await scene.apply(
        wildcard=policy(fewer.format(1), name="all", namespace="a", host="*.b.svc.cluster.local"),
        rule=policy(fewer.format(0)),
    )
    for _ in range(4):
        await reviews.client.get("http://s.b/")

    closed = f"{CLUSTER}.upstream_cx_max_requests"
    assert await reviews.client.stat(closed) == 4
    await scene.apply(wildcard=None)
    for _ in range(4):
        await reviews.client.get("http://s.b/")
    assert await reviews.client.stat(closed) == 4


async def test_an_edit_of_a_rule_leaves_other_clusters_as_they_are(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(rule=rule("subsets: [{name: v1, labels: {version: v1}}]"))
    subset = "cluster.outbound|80|v1|s.b.svc.cluster.local;.membership_total"
    assert await reviews.client.stat(subset) == 1

    await scene.apply(rule=rule("subsets: [{name: v2, labels: {app: s}}]"))

    other = subset.replace("|v1|", "|v2|")
    assert await reviews.client.stat(other) == 2
    updates = await reviews.client.stats(r"cluster_manager\.cluster_modified")
    assert updates == {"cluster_manager.cluster_modified": 1}


STRICT = """\
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
"""
SIDECAR = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{{address: {address}, serviceAccount: s}}]
"""
