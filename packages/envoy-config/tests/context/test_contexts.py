"""What proxies are given by a context, and what of it is that of the context before."""

from collections.abc import Callable

from documents import Documents
from envoy_config import PushContext
from mesh_model import MeshModel
from proxies import as_json, proxy

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
        (changed,) = [each for each in new if each.name == differing[0] and each not in old]
        assert address.encode() in changed.body
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
