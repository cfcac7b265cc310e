"""The setting that the scenarios share works by itself, and a scene keeps what it promises."""

from documents import entry, peer_authentication
from scenarios import Scene

SIDECAR_SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: t, namespace: b}}
spec:
  hosts: [t.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP, targetPort: 8080}}
  - {{number: 9000, name: tcp, protocol: TCP, targetPort: 9000}}
  endpoints: [{{address: {address}, serviceAccount: s}}]
"""


async def test_without_rules_both_versions_answer(scene: Scene) -> None:
    reviews = await scene.reviews()

    answers = [await reviews.client.get("http://s.b/x?q=1") for _ in range(8)]

    assert {each.status for each in answers} == {200}
    assert {each.version for each in answers} == {"v1", "v2"}
    assert reviews.v1.count + reviews.v2.count == 8
    assert answers[0].seen.path == "/x?q=1"
    entry = await reviews.client.logged(path="/x?q=1")
    assert entry["response_code"] == 200
    cluster = "outbound|80||s.b.svc.cluster.local"
    assert entry["upstream_cluster"] == cluster
    assert await reviews.client.stat(f"cluster.{cluster};.upstream_rq_total") == 8


async def test_a_change_is_with_the_proxy_when_apply_returns(scene: Scene) -> None:
    reviews = await scene.reviews()
    only_v2 = entry(
        "s",
        "hosts: [s.b.svc.cluster.local], resolution: STATIC, "
        "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], "
        f"endpoints: [{{address: {reviews.v2.address}}}]",
        namespace="b",
    )

    await scene.apply(service_s=only_v2)
    assert {(await reviews.client.get("http://s.b/")).version for _ in range(4)} == {"v2"}

    await scene.apply(service_s=None)
    assert await reviews.client.envoy.listeners() == set()


async def test_a_mistake_is_returned_and_what_was_good_stays(scene: Scene) -> None:
    reviews = await scene.reviews()

    problems = await scene.apply(mistaken=True, service_s="kind: ServiceEntry")

    assert problems
    assert (await reviews.client.get("http://s.b/")).status == 200


async def test_a_workload_with_a_sidecar_is_called_in_mutual_tls(scene: Scene) -> None:
    server = scene.network.address()
    await scene.apply(
        service=SIDECAR_SERVICE.format(address=server), strict=peer_authentication("STRICT")
    )
    s = await scene.sidecar("s", namespace="b", service_account="s", address=server)
    await scene.echo("v1", address=s.app_address)
    await scene.tcp_echo("v1", address=s.app_address)
    client = await scene.sidecar("c", namespace="a", service_account="c")

    answer = await client.get("http://t.b/")

    assert answer.version == "v1"
    certificate = answer.seen.headers["x-forwarded-client-cert"]
    assert "URI=spiffe://cluster.local/ns/a/sa/c" in certificate
    assert await client.send(9000, b"hello\n") == b"v1 hello\n"


async def test_an_echo_server_does_as_it_is_asked(scene: Scene) -> None:
    reviews = await scene.reviews()
    reviews.v1.answer(status=418, headers={"x": "y"}, times=1)
    await reviews.v2.refuse()

    answers = [await reviews.client.get("http://s.b/") for _ in range(6)]

    assert sorted({each.status for each in answers}) == [200, 418]
    assert [each.headers["x"] for each in answers if each.status == 418] == ["y"]
    assert {each.version for each in answers} == {"v1"}
    await reviews.v2.accept()
    assert reviews.v2.count == 0
