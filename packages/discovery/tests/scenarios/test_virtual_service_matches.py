"""VirtualServices seen in traffic: which requests a route takes, and which clients it is for."""

from collections import Counter

from documents import entry
from scenarios import Reviews, Scene
from virtual_services import VERSIONS, only, to, virtual_service

ALL = "http://s.b/"


async def versions(reviews: Reviews, requests: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the version, or the status, by path; the values are headers."""
    found = {}
    for path, headers in requests.items():
        answer = await reviews.client.get(f"http://s.b{path}", headers=headers)
        found[path] = answer.version or str(answer.status)
    return found


async def test_without_rules_the_service_is_reached_by_its_names(scene: Scene) -> None:
    reviews = await scene.reviews()
    own = await scene.sidecar("own", namespace="b", service_account="c")

    for url in (
        "http://s.b/",
        "http://s.b.svc.cluster.local:80/",
        "http://s.b.svc.cluster.local./",
    ):
        answers = [await reviews.client.get(url) for _ in range(8)]
        assert {each.version for each in answers} == {"v1", "v2"}

    assert (await own.get("http://s/")).status == 200
    await reviews.client.get("http://s/unknown")
    log = await reviews.client.logged(path="/unknown")
    assert log["upstream_cluster"] == "PassthroughCluster"


async def test_a_prefix_is_one_of_characters(scene: Scene) -> None:
    reviews = await scene.reviews()
    api = "match: [{uri: {prefix: /api}%s}], " + only("v1")
    await scene.apply(rule=VERSIONS, vs=virtual_service(api % "", only("v2")))
    paths: dict[str, dict[str, str]] = {"/api": {}, "/apix": {}, "/api/x": {}, "/Api": {}}

    assert await versions(reviews, paths) == {
        "/api": "v1",
        "/apix": "v1",
        "/api/x": "v1",
        "/Api": "v2",
    }

    await scene.apply(vs=virtual_service(api % ", ignoreUriCase: true", only("v2")))
    assert await versions(reviews, {"/Api": {}}) == {"/Api": "v1"}


async def test_a_regular_expression_matches_the_whole_path(scene: Scene) -> None:
    reviews = await scene.reviews()
    number = "match: [{uri: {regex: '/v[0-9]+'}}], " + only("v1")
    await scene.apply(rule=VERSIONS, vs=virtual_service(number, only("v2")))

    assert await versions(reviews, {"/v1": {}, "/v1/x": {}, "/v1?q=1": {}}) == {
        "/v1": "v1",
        "/v1/x": "v2",
        "/v1?q=1": "v1",
    }


async def test_a_rule_after_one_without_match_is_never_reached_and_reported(scene: Scene) -> None:
    reviews = await scene.reviews()
    both = virtual_service(only("v1"), "match: [{uri: {prefix: /x}}], " + only("v2"))
    await scene.apply(rule=VERSIONS, vs=both)

    assert await versions(reviews, {"/x": {}, "/y": {}}) == {"/x": "v1", "/y": "v1"}
    (warning,) = scene.plane.warnings
    assert warning.field == "spec.http[1].match[0]"
    assert warning.message.startswith("is never reached: rule 1, which has no match")


async def test_headers_must_match_and_others_must_not(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=VERSIONS,
        vs=virtual_service(
            "match: [{headers: {x: {exact: a}}, withoutHeaders: {y: {}}}], " + only("v1"),
            "match: [{uri: {prefix: /z}, withoutHeaders: {y: {exact: b}}}], " + only("v1"),
            only("v2"),
        ),
    )

    assert await versions(
        reviews,
        {
            "/a": {"x": "a"},
            "/b": {"x": "b"},
            "/c": {"x": "a", "y": "c"},
            "/z": {},
            "/z1": {"y": "a"},
            "/z2": {"y": "b"},
        },
    ) == {"/a": "v1", "/b": "v2", "/c": "v2", "/z": "v1", "/z1": "v1", "/z2": "v2"}


async def test_query_parameters_methods_and_authorities_are_conditions(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=VERSIONS,
        vs=virtual_service(
            "match: [{queryParams: {q: {exact: '1'}}}, {method: {exact: PUT}}, "
            "{authority: {prefix: s.b.svc}}, {scheme: {exact: https}}], " + only("v1"),
            only("v2"),
        ),
    )

    assert await versions(reviews, {"/?q=1": {}, "/?q=12": {}}) == {"/?q=1": "v1", "/?q=12": "v2"}
    assert (await reviews.client.get(ALL, method="PUT")).version == "v1"
    assert (await reviews.client.get("http://s.b.svc.cluster.local/")).version == "v1"


async def test_matches_choose_by_the_labels_and_the_namespace_of_the_client(scene: Scene) -> None:
    reviews = await scene.reviews(client_labels={"app": "web"})
    other = await scene.sidecar("o", namespace="a", service_account="o", labels={"app": "x"})
    web = "match: [{sourceLabels: {app: web}%s}], " + only("v1")
    await scene.apply(rule=VERSIONS, vs=virtual_service(web % "", only("v2")))

    assert (await reviews.client.get(ALL)).version == "v1"
    assert (await other.get(ALL)).version == "v2"

    await scene.apply(vs=virtual_service(web % ", gateways: [mesh]", only("v2")))
    assert (await other.get(ALL)).version == "v1"

    elsewhere = "match: [{sourceNamespace: z}], " + only("v1")
    await scene.apply(vs=virtual_service(elsewhere, only("v2")))
    assert (await reviews.client.get(ALL)).version == "v2"


async def test_a_delegate_acts_under_the_matches_of_its_root(scene: Scene) -> None:
    reviews = await scene.reviews()
    root = virtual_service("match: [{uri: {prefix: /r}}], delegate: {name: d}", name="root")
    good = "match: [{uri: {exact: /r/a}}], " + only("v1")
    delegate = virtual_service(
        good,
        "match: [{uri: {prefix: /q}}], " + only("v2"),
        "match: [{uri: {exact: /r/b}}, {uri: {prefix: /q}}], " + only("v2"),
        name="d",
        hosts="",
    )
    await scene.apply(rule=VERSIONS, root=root, delegate=delegate)

    assert await versions(reviews, {"/r/a": {}, "/q": {}, "/r/b": {}}) == {
        "/r/a": "v1",
        "/q": "404",
        "/r/b": "404",
    }

    private = virtual_service(good, name="d", namespace="x", hosts="", more="exportTo: [.]")
    elsewhere = virtual_service(
        "match: [{uri: {prefix: /r}}], delegate: {name: d, namespace: x}",
        only("v2"),
        name="root",
    )
    await scene.apply(root=elsewhere, delegate=private)
    assert await versions(reviews, {"/r/a": {}}) == {"/r/a": "v2"}


async def test_of_two_for_one_host_the_older_acts_until_it_is_gone(scene: Scene) -> None:
    reviews = await scene.reviews()
    x = "match: [{uri: {prefix: /x}}], "
    await scene.apply(
        rule=VERSIONS,
        younger=virtual_service(
            x + only("v2"), only("v2"), name="a", created="2022-01-01T00:00:00Z"
        ),
        older=virtual_service(only("v1"), name="b", created="2021-01-01T00:00:00Z"),
    )
    assert await versions(reviews, {"/x": {}, "/y": {}}) == {"/x": "v1", "/y": "v1"}

    await scene.apply(older=None)
    assert await versions(reviews, {"/x": {}, "/y": {}}) == {"/x": "v2", "/y": "v2"}


async def test_rules_of_a_concrete_host_come_before_a_wildcards(scene: Scene) -> None:
    reviews = await scene.reviews()
    other = entry(
        "t",
        "hosts: [t.b.svc.cluster.local], resolution: STATIC, "
        "ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 127.0.0.1}]",
        namespace="b",
    )
    wide = virtual_service(
        "directResponse: {status: 418}",
        name="wide",
        hosts="'*.b.svc.cluster.local'",
        created="2020-01-01",
    )
    await scene.apply(
        rule=VERSIONS, other=other, wide=wide, narrow=virtual_service(only("v1"), name="narrow")
    )

    assert (await reviews.client.get(ALL)).version == "v1"
    assert (await reviews.client.get("http://t.b/")).status == 418


async def test_one_that_is_exported_to_its_own_namespace_acts_only_there(scene: Scene) -> None:
    reviews = await scene.reviews()
    inside = await scene.sidecar("i", namespace="b", service_account="i")
    private = virtual_service("directResponse: {status: 418}", more="exportTo: [.]")
    await scene.apply(vs=private)

    assert (await reviews.client.get(ALL)).status == 200
    assert (await inside.get(ALL)).status == 418


async def test_a_host_without_a_service_is_routed_too(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=VERSIONS,
        vs=virtual_service(only("v2"), hosts="any.example", namespace="a"),
    )

    assert (await reviews.client.get("http://any.example/")).version == "v2"


async def test_weights_share_the_requests(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=VERSIONS,
        vs=virtual_service(f"route: [{to('v1', weight=80)}, {to('v2', weight=20)}]"),
    )
    counts = Counter([(await reviews.client.get(ALL)).version for _ in range(500)])
    assert 70 <= counts["v2"] <= 130

    await scene.apply(vs=virtual_service(f"route: [{to('v1', weight=3)}, {to('v2', weight=1)}]"))
    counts = Counter([(await reviews.client.get(ALL)).version for _ in range(500)])
    assert 95 <= counts["v2"] <= 155


async def test_a_destination_of_weight_0_gets_nothing_unless_it_is_the_only_one(
    scene: Scene,
) -> None:
    reviews = await scene.reviews()
    both = f"route: [{to('v1', weight=0)}, {to('v2', weight=1)}]"
    await scene.apply(rule=VERSIONS, vs=virtual_service(both))
    assert {(await reviews.client.get(ALL)).version for _ in range(6)} == {"v2"}

    await scene.apply(vs=virtual_service(f"route: [{to('v1', weight=0)}]"))
    assert {(await reviews.client.get(ALL)).version for _ in range(6)} == {"v1"}


async def test_a_route_to_an_unknown_subset_answers_503_and_others_work(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=VERSIONS,
        vs=virtual_service("match: [{uri: {prefix: /x}}], " + only("v3"), only("v1")),
    )

    assert await versions(reviews, {"/x": {}, "/y": {}}) == {"/x": "503", "/y": "v1"}
    assert (await reviews.client.logged(path="/x"))["response_flags"] == "NC"
