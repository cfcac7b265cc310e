"""What proxies are given, in full, and who is given what when something changes."""

import gc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mesh_ca.testing import throwaway_authority
from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._envoy_names import parse_outbound_cluster
from mesh_discovery.plan._proxy import NodeError, NotServedError, Proxy
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._generators import generators
from mesh_discovery.push._served_context import ServedContext
from mesh_discovery.push._trust_bundle import trust_bundle_changed
from mesh_discovery.push.context._cluster_names import ClusterNames
from mesh_discovery.push.context._context import PushContext
from planes import Documents, as_json, proxy
from proxies import proxy_of
from xds_server import Client, ConfigKey, Node, PushRequest, Watch, type_urls

Build = Callable[..., MeshModel]


def test_unknown_clusters_have_no_endpoints_and_impossible_routes_do_not_exist(
    model_of: Build, yaml: Documents
) -> None:
    context = PushContext(model_of(yaml.service("web", "127.93.1.1", 80, 8080)))
    names = {"x", "outbound|81||web.default.svc.cluster.local", "outbound|80|v1|web.default"}

    assert {
        each["cluster_name"] for each in as_json(context.endpoints(proxy(), frozenset(names)))
    } == names
    assert not context.routes(proxy(), frozenset({"0", "65536", "x", "9" * 400})).resources


def test_a_delta_client_is_told_of_unknown_clusters_by_their_names_alone(
    model_of: Build, yaml: Documents
) -> None:
    known = "outbound|80||web.default.svc.cluster.local"
    served = ServedContext(model_of(yaml.service("web", "127.93.1.1", 80, 8080)))
    endpoints = generators(served, bundle_pem=lambda: b"")[type_urls.ENDPOINT]
    watch = Watch(type_url=type_urls.ENDPOINT, names=frozenset({known, "x", f"{known}.other"}))

    def names(*, delta: bool) -> set[str]:
        who = structs.replace(client(proxy()), delta=delta)
        made = endpoints.generate(who, watch, None)
        assert made is not None
        return {each.name for each in made.resources}

    assert names(delta=True) == {known}
    assert names(delta=False) == watch.names


def test_proxies_of_one_shape_share_the_very_same_answer(model_of: Build, yaml: Documents) -> None:
    context = PushContext(model_of(yaml.service("web", "127.93.1.1", 80, 8080)))
    one, two = proxy("127.1.5.1", name="a"), proxy("127.1.6.1", name="b")
    wanted = frozenset({"outbound|80||web.default.svc.cluster.local"})

    assert context.clusters(one) is context.clusters(two)
    assert context.listeners(one) is context.listeners(two)
    assert context.endpoints(one, wanted) is context.endpoints(two, frozenset(wanted))
    assert context.routes(one, frozenset({"80"})) is context.routes(two, frozenset({"80"}))


def test_a_new_context_makes_only_what_changed(model_of: Build, yaml: Documents) -> None:
    kept = yaml.service("kept", "127.1.7.1", 80, 8080)
    before = PushContext(model_of(kept, yaml.service("web", "127.1.7.2", 80, 8080)))
    old = {each.name: each for each in before.clusters(proxy()).resources}

    after = PushContext(model_of(kept, yaml.service("web", "127.1.7.2", 81, 8080)), before=before)
    new = {each.name: each for each in after.clusters(proxy()).resources}

    name = "outbound|80||kept.default.svc.cluster.local"
    assert new[name] is old[name]
    assert "outbound|81||web.default.svc.cluster.local" in new
    assert "outbound|80||web.default.svc.cluster.local" not in new


def test_after_a_change_of_endpoints_alone_all_else_is_the_very_same(
    model_of: Build, yaml: Documents
) -> None:
    kept = yaml.service("kept", "127.1.7.1", 80, 8080)
    names = frozenset(f"outbound|80||{each}.default.svc.cluster.local" for each in ("kept", "web"))
    contexts = [PushContext(model_of(kept, yaml.service("web", "127.1.7.2", 80, 8080)))]
    for address in ("127.1.7.3", "127.1.7.4"):
        before = contexts[-1]
        old = [
            *before.clusters(proxy()).resources,
            *before.routes(proxy(), frozenset({"80"})).resources,
            *before.endpoints(proxy(), names).resources,
        ]
        model = model_of(kept, yaml.service("web", address, 80, 8080))
        contexts.append(after := PushContext(model, before=before))
        new = [
            *after.clusters(proxy()).resources,
            *after.routes(proxy(), frozenset({"80"})).resources,
            *after.endpoints(proxy(), names).resources,
        ]
        pairs = zip(old, new, strict=True)
        differing = [b.name for a, b in pairs if a is not b and not b.name.endswith("Cluster")]
        assert differing == ["outbound|80||web.default.svc.cluster.local"]
        (made,) = [each for each in new if each.name == differing[0] and each not in old]
        assert address.encode() in made.body
        assert after.visible("default") == PushContext(model).visible("default")


def test_a_service_that_hides_another_is_seen_after_a_change_of_endpoints(
    model_of: Build, yaml: Documents
) -> None:
    def services(address: str) -> MeshModel:
        shop = yaml.service("web", address, 80, 8080).replace(
            "namespace: default", "namespace: shop"
        )
        return model_of(yaml.service("web", "127.1.7.1", 80, 8080), shop)

    context = PushContext(services("127.1.7.2"))
    for address in ("127.1.7.2", "127.1.7.3", "127.1.7.4"):
        for namespace in ("default", "shop", "other"):
            context.visible(namespace)
        model = services(address)
        context = PushContext(model, before=context)
        alone = PushContext(model)
        for namespace in ("default", "shop", "other"):
            assert context.visible(namespace) == alone.visible(namespace)


@given(
    st.frozensets(st.sampled_from([*"abc", "a.b", ""]), max_size=3),
    st.frozensets(
        st.builds(
            "{}|{}|{}|{}".format,
            st.sampled_from(["outbound", "inbound"]),
            st.sampled_from(["80", "81", "x"]),
            st.sampled_from(["", "v1"]),
            st.sampled_from([*"abc", "a.b", "", "a|b"]),
        )
        | st.sampled_from(["a", "", "|"]),
        max_size=100,
    ),
)
def test_clusters_of_hosts_are_found_among_sorted_names_as_among_all(
    hosts: frozenset[str], wanted: frozenset[str]
) -> None:
    expected = set()
    for name in wanted:
        parsed = parse_outbound_cluster(name)
        if parsed is not None and parsed.host in hosts:
            expected.add(name)

    assert ClusterNames().of(hosts, wanted) == expected


@given(
    st.lists(
        st.frozensets(st.integers(0, 40), min_size=20).map(
            lambda numbers: frozenset(f"outbound|80||s{number}" for number in numbers)
        ),
        min_size=1,
    )
)
def test_clusters_of_a_host_are_found_as_a_client_watches_others(
    watches: list[frozenset[str]],
) -> None:
    names = ClusterNames()
    for wanted in watches:
        for number in range(41):
            name = f"outbound|80||s{number}"
            assert names.of(frozenset({f"s{number}"}), wanted) == {name} & wanted


def test_a_watch_with_a_few_other_names_is_not_sorted_again() -> None:
    names = ClusterNames()
    wanted = frozenset(f"outbound|80||service-{number}" for number in range(100))
    names.of(frozenset({"service-1"}), wanted)
    wanted = (wanted - {"outbound|80||service-1"}) | {"outbound|80|v2|service-2"}
    assert names.of(frozenset({"service-1"}), wanted) == frozenset()
    assert len(names.of(frozenset({"service-2"}), wanted)) == 2
    assert names.sorted == 1


def test_the_names_of_a_watch_are_sorted_once_for_all_pushes_and_forgotten_with_it() -> None:
    names = ClusterNames()
    wanted = frozenset(f"outbound|80||service-{number}" for number in range(100))
    for number in range(5):
        host = f"service-{number}"
        assert names.of(frozenset({host}), wanted) == {f"outbound|80||{host}"}
    assert names.sorted == 1
    del wanted
    gc.collect()
    assert not names._by_host


def test_a_host_of_two_namespaces_is_the_proxys_own_then_the_oldest(
    model_of: Build, yaml: Documents
) -> None:
    one = yaml.service("web", "127.1.7.1", 80, 8080)
    two = one.replace("namespace: default", "namespace: other").replace("7.1", "7.2")
    context = PushContext(model_of(one, two))

    found = {
        namespace: context.visible(namespace)["web.default.svc.cluster.local"].namespace
        for namespace in ("default", "other", "third")
    }

    assert found == {"default": "default", "other": "other", "third": "default"}


def test_two_services_of_one_domain_do_not_spoil_the_route(
    model_of: Build, yaml: Documents
) -> None:
    one = yaml.service("web", "127.1.7.1", 80, 8080)
    two = one.replace("name: web", "name: web2").replace(
        "[web.default.svc.cluster.local]", "[web.default]"
    )
    context = PushContext(model_of(one, two))

    (route,) = as_json(context.routes(proxy(), frozenset({"80"})))

    domains = [domain for host in route["virtual_hosts"] for domain in host["domains"]]
    assert len(domains) == len(set(domains))


def test_the_application_on_the_workloads_own_address_is_not_shadowed(
    model_of: Build, yaml: Documents
) -> None:
    context = PushContext(model_of(yaml.service("web", "127.0.0.1", 8080, 8080)))
    same = proxy("127.0.0.1", APP_ADDRESS="127.0.0.1", OUTBOUND_BIND_ADDRESS="127.0.0.1")

    assert not context.listeners(same).resources
    assert not context.conflicts  # a call to it from its own machine arrives there by itself


ROOT_PEM = throwaway_authority().root_pem


def client(of: Proxy) -> Client[Proxy]:
    return Client(id="1", node=Node(id=of.id), identities=(), context=of)


WATCH = Watch(type_url="", names=frozenset({"outbound|80||web.default.svc.cluster.local", "80"}))


def answered(served: ServedContext, of: Proxy, push: PushRequest) -> set[str]:
    """Which types a push goes out in, by the end of their type URL."""
    return {
        url.rpartition(".")[2]
        for url, each in generators(served, bundle_pem=lambda: ROOT_PEM).items()
        if each.generate(client(of), WATCH, push) is not None
    }


SERVICE = ConfigKey("ServiceEntry", "web.default.svc.cluster.local", "default")
EVERYTHING = {"Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration"}


def test_only_the_types_that_a_change_touches_are_pushed(model_of: Build, yaml: Documents) -> None:
    served = ServedContext(model_of(yaml.service("web", "127.1.7.1", 80, 8080)))
    stranger, own = proxy(), proxy("127.1.7.1")
    workload = ConfigKey("Address", "127.1.7.1", "default")
    policy = ConfigKey("PeerAuthentication", "default", "default")

    def push(*keys: ConfigKey, incremental: bool = False) -> PushRequest:
        return PushRequest(incremental=incremental, configs_updated=frozenset(keys))

    assert answered(served, stranger, push()) == EVERYTHING | {
        "ProxyConfig",
        "NameTable",
        "TypedExtensionConfig",
    }
    assert answered(served, stranger, trust_bundle_changed()) == {"ProxyConfig"}
    assert answered(served, own, trust_bundle_changed()) == {"ProxyConfig"}
    assert answered(served, stranger, push(SERVICE)) == EVERYTHING | {"NameTable"}
    endpoints = {"ClusterLoadAssignment", "NameTable"}
    assert answered(served, stranger, push(SERVICE, workload, incremental=True)) == endpoints
    assert answered(served, own, push(SERVICE, workload, incremental=True)) == (
        EVERYTHING - {"RouteConfiguration"} | {"NameTable"}
    )
    assert answered(served, own, push(policy)) == EVERYTHING - {"RouteConfiguration"}
    other = ConfigKey("ServiceEntry", "other.x", "default")
    assert "ClusterLoadAssignment" not in answered(served, stranger, push(other))


def test_a_change_concerns_those_who_see_the_service_now_or_saw_it_before(
    model_of: Build, yaml: Documents
) -> None:
    shown = yaml.service("web", "127.1.7.1", 80, 8080)
    hidden = shown.replace("spec:", "spec:\n  exportTo: ['~']")
    served = ServedContext(model_of(hidden))
    change = PushRequest(configs_updated=frozenset({SERVICE}))

    assert not needs_push(served, client(proxy()), change)
    for documents in (shown, hidden):
        served.pending = model_of(documents)
        served.build(change)
        assert needs_push(served, client(proxy()), change)
    assert needs_push(served, client(proxy()), PushRequest())


def test_what_was_hidden_is_told_though_changes_of_endpoints_were_built_first(
    model_of: Build, yaml: Documents
) -> None:
    shown = yaml.service("web", "127.1.7.1", 80, 8080)
    hidden = shown.replace("spec:", "spec:\n  exportTo: ['~']")
    served = ServedContext(model_of(shown))
    hides = PushRequest(configs_updated=frozenset({SERVICE}))
    other = ConfigKey("ServiceEntry", "other.x", "default")
    for _ in range(2):
        served.pending = model_of(hidden)
        served.build(PushRequest(incremental=True, configs_updated=frozenset({other})))
    served.build(hides)
    assert needs_push(served, client(proxy()), hides)


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("sidecar~1.1.1.1~web.default", "is not type~address~id~domain"),
        ("ztunnel~1.1.1.1~web.default~default.x", "the type is not sidecar or router"),
        ("sidecar~nowhere~web.default~default.x", "has no valid address"),
        ("sidecar~1.1.1.1~web.default~", "names no namespace"),
    ],
)
def test_a_node_that_cannot_be_served_is_told_why(node: str, wanted: str) -> None:
    with pytest.raises(NodeError, match=wanted):
        proxy_of(Node(id=node))


def test_an_unknown_interception_mode_is_refused_and_addresses_are_checked() -> None:
    with pytest.raises(NotServedError, match="to one of NONE, REDIRECT, TPROXY"):
        proxy(INTERCEPTION_MODE="SIPHON")
    with pytest.raises(NodeError, match="APP_ADDRESS is 'app', which is not an IP address"):
        proxy(APP_ADDRESS="app")
    assert proxy(INSTANCE_IPS="10.0.0.1, 10.0.0.2,x").addresses == ("10.0.0.1", "10.0.0.2")


def test_a_router_gets_clusters_and_no_listeners(model_of: Build, yaml: Documents) -> None:
    context = PushContext(model_of(yaml.service("web", "127.93.1.1", 80, 8080)))
    router = proxy_of(Node(id="router~127.93.1.1~gw.default~default.svc.cluster.local"))

    assert not context.listeners(router).resources
    assert len(context.clusters(router).resources) == 2
    assert type_urls.CLUSTER in generators(
        ServedContext(context.model), bundle_pem=lambda: ROOT_PEM
    )
