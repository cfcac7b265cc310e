"""A context holds what proxies may still ask for, however many contexts and proxies there were."""

from collections.abc import Callable
from pathlib import Path

from destination_rules import rule
from documents import entry
from envoy_config import Proxy, PushContext
from envoy_config.context._cache import Cache
from mesh_model import Facts, MeshModel, build_model
from models import EditedFolder
from proxies import proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]
_ROUNDS = 12
SERVICES = tuple(
    entry(
        f"s{n}",
        f"hosts: [s{n}.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
        f"ports: [{{number: 80, name: http, protocol: HTTP}}], "
        f"endpoints: [{{address: 10.0.{n}.1}}]",
        namespace="b",
    )
    for n in range(60)
)


def redirected(namespace: str) -> Proxy:
    return proxy_of(
        Node(
            id=f"sidecar~10.9.0.1~c.{namespace}~{namespace}.svc.cluster.local",
            metadata={"INTERCEPTION_MODE": "REDIRECT"},
        )
    )


def subset(number: int) -> str:
    return rule(f"subsets: [{{name: v{number}}}]", host="s1.b.svc.cluster.local", namespace="b")


ROUTES = (
    "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
    "metadata: {name: v, namespace: b}\n"
    "spec: {hosts: [s2.b.svc.cluster.local], "
    "http: [{route: [{destination: {host: s2.b.svc.cluster.local}}]}]}\n"
)


def asked(context: PushContext, proxy: Proxy) -> object:
    """Ask for everything; return what a client holds."""
    clusters = context.clusters(proxy)
    wanted = frozenset(each.name for each in clusters.resources if each.name.startswith("outbound"))
    context.endpoints(proxy, wanted)
    context.listeners(proxy)
    context.routes(proxy, frozenset({"80"}))
    return clusters.by_name()


def earlier(context: PushContext) -> dict[str, int]:
    """Return how many values of earlier contexts there are, each of them of all services."""
    return {
        "clusters": len(context._clusters._outbound._earlier),
        "endpoints": len(context._endpoints._of_shape._earlier),
        "listeners": len(context._redirected_listeners._outbound_plans._earlier),
        "routes": len(context._routes._ports._earlier),
        "routes of scopes": len({each.scope for each in context._routes._hosts._of_scope}),
    }


def test_endpoints_of_sets_of_clusters_that_are_no_more_are_dropped(model_of: Build) -> None:
    proxy = redirected("a")
    context = PushContext(model_of(*SERVICES, subset(0)))
    has = asked(context, proxy)
    for number in range(1, _ROUNDS):
        context = PushContext(model_of(*SERVICES, subset(number)), before=context)
        has = asked(context, proxy)

    assert has
    assert earlier(context)["endpoints"] < _ROUNDS / 2


def test_values_of_proxies_that_are_gone_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "mesh.yaml").write_text("---\n".join((*SERVICES, ROUTES)))
    folder = EditedFolder(tmp_path)
    model: MeshModel | None = None
    context: PushContext | None = None
    for number in range(_ROUNDS):
        (tmp_path / "rule.yaml").write_text(subset(number % 2))
        model = build_model(Facts(snapshot=folder.load()), before=model)
        context = PushContext(model, before=context)
        asked(context, redirected(f"n{number}"))

    assert context is not None
    assert max(earlier(context).values()) < _ROUNDS / 2


def test_names_of_hosts_for_domains_that_are_gone_are_dropped(model_of: Build) -> None:
    context: PushContext | None = None
    for number in range(_ROUNDS):
        context = PushContext(model_of(*SERVICES[: 40 + number]), before=context)
        asked(context, redirected(f"n{number}"))

    assert context is not None
    domains = {each.proxy_domain for each in context._routes._hosts._names}
    assert f"n{_ROUNDS - 1}.svc.cluster.local" in domains
    assert len(domains) < _ROUNDS / 2


def test_a_cache_that_takes_over_has_no_more_values_than_it_may() -> None:
    old, new = Cache[int, str](most=3), Cache[int, str](most=3)
    for key in range(3):
        old.put(key, "old")
        new.put(10 + key, "new")

    new.adopt(old)

    assert dict(new.items()) == {0: "old", 1: "old", 2: "old"}


def test_a_cache_makes_a_value_of_the_earlier_one_once() -> None:
    old, new = Cache[int, str](), Cache[int, str]()
    old.put(1, "old")
    new.remember(old)

    assert 1 not in new
    assert new.renew(1, lambda key, earlier: f"{key} of {earlier}") == "1 of old"
    assert new.renew(1, lambda key, earlier: f"{key} of {earlier}") == "1 of old"
    assert new.renew(2, lambda key, earlier: f"{key} of {earlier}") == "2 of None"
    assert old.get(1, str) == "old"


def test_earlier_values_that_were_not_asked_for_go_unless_they_are_said_to_stay() -> None:
    first = Cache[int, str]()
    for key in range(4):
        first.put(key, f"first {key}")
    second, third, fourth = Cache[int, str](), Cache[int, str](), Cache[int, str]()
    second.remember(first)
    second.put(0, "second 0")

    third.remember(second)
    fourth.remember(second, where=lambda key: key < 2)

    assert dict(third.known()) == {0: "second 0"}
    assert dict(fourth.known()) == {0: "second 0", 1: "first 1"}


def test_earlier_values_stay_while_a_cache_is_not_asked_at_all() -> None:
    first, second, third = Cache[int, str](), Cache[int, str](), Cache[int, str]()
    first.put(1, "first")
    second.remember(first)
    third.remember(second)
    assert third.renew(1, lambda _, earlier: str(earlier)) == "first"


def test_a_cache_takes_over_values_as_they_are_now() -> None:
    old, new = Cache[int, int](), Cache[int, int]()
    for key in range(3):
        old.put(key, key)
    new.adopt(old, revise=lambda key, value: value + 10 if key else None)
    assert dict(new.items()) == {1: 11, 2: 12}


def test_a_cache_keeps_the_value_that_was_put_last() -> None:
    cache = Cache[frozenset[int], str](most=3, weigh=len)
    key = frozenset({1, 2})
    assert cache.get(key, lambda _: "computed") == "computed"
    cache.put(key, "put")
    assert cache.get(key, lambda _: "computed again") == "put"
    cache.put(frozenset(range(4)), "too heavy")
    assert dict(cache.items()) == {key: "put"}


def test_a_cache_of_sets_of_names_is_bounded_by_the_names_in_all_of_them() -> None:
    cache = Cache[frozenset[int], int](most=100, weigh=len)
    for first in range(0, 1000, 30):
        names = frozenset(range(first, first + 30))
        assert cache.get(names, len) == 30
        assert sum(map(len, cache)) <= 100
    assert cache.get(frozenset(range(500)), len) == 500
    assert sum(map(len, cache)) <= 100
    other = Cache[frozenset[int], int](most=50, weigh=len)
    other.adopt(cache)
    assert sum(map(len, other)) <= 50
    other.put(frozenset(range(50)), 1)
    assert sum(map(len, other)) <= 50
    assert frozenset(range(50)) in other
