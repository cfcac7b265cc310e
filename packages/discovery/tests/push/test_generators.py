"""Who is pushed what when something changes, and what an answer leaves out."""

from collections.abc import Callable

from msgspec import structs

from documents import Documents
from envoy_config import Proxy, PushContext
from mesh_ca.testing import throwaway_authority
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._generators import generators
from mesh_discovery.push._proxy_configs import trust_bundle_changed
from mesh_discovery.push._served_context import ServedContext
from mesh_model import MeshModel
from proxies import proxy, proxy_of
from xds_server import Client, ConfigKey, Node, PushRequest, Watch, type_urls

Build = Callable[..., MeshModel]


def test_a_delta_client_is_sent_unknown_clusters_by_their_names_alone(
    model_of: Build, yaml: Documents
) -> None:
    known = "outbound|80||web.default.svc.cluster.local"
    served = ServedContext(model_of(yaml.service("web", "127.93.1.1", 80, 8080)))
    endpoints = generators(served, bundle_pem=lambda: b"")[type_urls.ENDPOINT]
    watch = Watch(type_url=type_urls.ENDPOINT, names=frozenset({known, "x", f"{known}.other"}))

    def names(*, delta: bool) -> set[str]:
        who = structs.replace(client(proxy()), delta=delta)
        generated = endpoints.generate(who, watch, None)
        assert generated is not None
        return {each.name for each in generated.resources}

    assert names(delta=True) == {known}
    assert names(delta=False) == watch.names


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


def test_what_was_hidden_is_pushed_though_changes_of_endpoints_were_built_first(
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


def test_a_router_gets_clusters_and_no_listeners(model_of: Build, yaml: Documents) -> None:
    context = PushContext(model_of(yaml.service("web", "127.93.1.1", 80, 8080)))
    router = proxy_of(Node(id="router~127.93.1.1~gw.default~default.svc.cluster.local"))

    assert not context.listeners(router).resources
    assert len(context.clusters(router).resources) == 2
    assert type_urls.CLUSTER in generators(
        ServedContext(context.model), bundle_pem=lambda: ROOT_PEM
    )
