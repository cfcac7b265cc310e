"""Proxies are given what the patches of their EnvoyFilters make of their resources."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import yaml as pyyaml

from documents import Documents, entry
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from envoy_filters import LUA, MANAGER
from mesh_model import MeshModel
from proxies import as_json, proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]
AT_ROUTER = {"filter": {"name": MANAGER, "subFilter": {"name": "envoy.filters.http.router"}}}
WEB = entry(
    "web",
    "hosts: [web.x], resolution: STATIC, location: MESH_INTERNAL, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}],"
    " endpoints: [{address: 10.0.0.1}]",
)


def proxy(mode: str = "REDIRECT", *, kind: str = "sidecar", **metadata: Any) -> Proxy:
    node = f"{kind}~10.0.0.1~w.default~default.svc.cluster.local"
    return proxy_of(Node(id=node, metadata={"INTERCEPTION_MODE": mode, **metadata}))


def envoy_filter(
    name: str, *patches: dict[str, Any], namespace: str = "default", **spec: Any
) -> str:
    return pyyaml.safe_dump(
        {
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "EnvoyFilter",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"configPatches": list(patches), **spec},
        }
    )


def patch(apply_to: str, operation: str, value: Any = None, **match: Any) -> dict[str, Any]:
    change = {"operation": operation} | ({"value": value} if value is not None else {})
    return {"applyTo": apply_to, "patch": change, "match": match}


def lua(name: str, context: str = "SIDECAR_INBOUND", **match: Any) -> dict[str, Any]:
    return patch(
        "HTTP_FILTER",
        "INSERT_BEFORE",
        {**LUA, "name": name},
        context=context,
        listener={"filterChain": AT_ROUTER},
        **match,
    )


def http_filters(context: PushContext, of: Proxy, direction: str = "INBOUND") -> set[str]:
    """Return the names of HTTP filters, of each connection manager one text."""
    found = set()
    for listener in as_json(context.listeners(of)):
        if listener.get("traffic_direction") != direction:
            continue
        chains = [*listener["filter_chains"], *filter(None, [listener.get("default_filter_chain")])]
        for chain in chains:
            for each in chain["filters"]:
                if each["name"] == MANAGER:
                    listed = each["typed_config"]["http_filters"]
                    found.add(" ".join(item["name"].rpartition(".")[2] for item in listed))
    return found


INBOUND = {"grpc_stats fault cors router"}


@pytest.mark.parametrize("mode", ["NONE", "REDIRECT"])
def test_filters_are_put_into_inbound_listeners_in_order(mode: str, model_of: Build) -> None:
    model = model_of(
        WEB,
        envoy_filter("late", lua("x.late"), priority=1),
        envoy_filter("early", lua("x.early"), priority=-1),
        envoy_filter("root", lua("x.root"), namespace="istio-system"),
        envoy_filter("own", lua("x.own")),
        envoy_filter("elsewhere", lua("x.elsewhere"), namespace="other"),
        envoy_filter("others", lua("x.others"), workloadSelector={"labels": {"app": "no"}}),
    )
    context = PushContext(model)
    of = proxy(mode)

    assert http_filters(context, of) == {"grpc_stats fault cors early root own late router"}
    outbound = http_filters(context, of, "OUTBOUND")
    assert not any("early" in each for each in outbound)


def test_proxies_without_patches_are_given_the_untouched_answers(model_of: Build) -> None:
    selected = envoy_filter(
        "some",
        lua("x.lua"),
        patch("CLUSTER", "MERGE", {"connect_timeout": "3s"}),
        patch("ROUTE_CONFIGURATION", "MERGE", {"request_headers_to_remove": ["x"]}),
        workloadSelector={"labels": {"app": "some"}},
    )
    context, plain = PushContext(model_of(WEB, selected)), PushContext(model_of(WEB))
    other, some = proxy(), proxy(LABELS={"app": "some"})

    def versions(of: PushContext, given: Proxy) -> list[tuple[str, str]]:
        answers = (of.listeners(given), of.clusters(given), of.routes(given, frozenset({"80"})))
        return [(each.name, each.version) for answer in answers for each in answer.resources]

    assert versions(context, other) == versions(plain, other)
    assert versions(context, some) != versions(plain, some)


def test_proxies_of_equal_patches_share_one_answer(model_of: Build) -> None:
    context = PushContext(model_of(WEB, envoy_filter("all", lua("x.lua"))))
    one, two = (
        proxy(),
        proxy_of(
            Node(
                id="sidecar~10.0.0.1~v.default~default.svc.cluster.local",
                metadata={"INTERCEPTION_MODE": "REDIRECT"},
            )
        ),
    )
    assert one != two
    assert context.listeners(one) is context.listeners(two)


@pytest.mark.parametrize(
    ("match", "metadata", "is_for_it"),
    [
        ({"proxyVersion": r"^1\.2.*"}, {"ISTIO_VERSION": "1.24.1"}, True),
        ({"proxyVersion": "24"}, {"ISTIO_VERSION": "1.24.1"}, True),
        ({"proxyVersion": r"^1\.3.*"}, {"ISTIO_VERSION": "1.24.1"}, False),
        ({"proxyVersion": ".*"}, {}, False),
        ({"metadata": {"ROLE": "a"}}, {"ROLE": "a"}, True),
        ({"metadata": {"ROLE": "a", "MORE": "b"}}, {"ROLE": "a"}, False),
        ({"metadata": {"ROLE": "1"}}, {"ROLE": 1}, False),
    ],
)
def test_patches_are_for_nodes_by_version_and_metadata(
    match: dict[str, Any], metadata: dict[str, Any], is_for_it: object, model_of: Build
) -> None:
    context = PushContext(model_of(WEB, envoy_filter("some", lua("x.lua", proxy=match))))
    found = http_filters(context, proxy(**metadata))
    assert (found == {"grpc_stats fault cors lua router"}) == is_for_it
    assert (found == INBOUND) != is_for_it


def test_clusters_are_changed_added_and_removed(model_of: Build) -> None:
    static = {
        "name": "mine",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": "mine"},
    }
    model = model_of(
        WEB,
        envoy_filter(
            "clusters",
            patch("CLUSTER", "ADD", static),
            patch("CLUSTER", "REMOVE", cluster={"name": "InboundPassthroughCluster"}),
            patch(
                "CLUSTER",
                "MERGE",
                {"connect_timeout": "3s"},
                context="SIDECAR_OUTBOUND",
                cluster={"service": "web.x"},
            ),
        ),
    )
    clusters = {each["name"]: each for each in as_json(PushContext(model).clusters(proxy()))}
    assert clusters["mine"]["connect_timeout"] == "2s"
    assert "InboundPassthroughCluster" not in clusters
    assert clusters["outbound|80||web.x"]["connect_timeout"] == "3s"
    assert clusters["inbound|8080||"]["connect_timeout"] == "10s"


def test_listeners_are_added_at_free_addresses_alone(
    model_of: Build, caplog: pytest.LogCaptureFixture
) -> None:
    def added(name: str, address: str, port: int) -> dict[str, Any]:
        tcp = {
            "name": "envoy.filters.network.tcp_proxy",
            "typed_config": {
                "@type": "type.googleapis.com/"
                "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "x",
                "cluster": "x",
            },
        }
        where = {"socket_address": {"address": address, "port_value": port}}
        value = {"name": name, "address": where, "filter_chains": [{"filters": [tcp]}]}
        return patch("LISTENER", "ADD", value)

    model = model_of(
        WEB,
        envoy_filter(
            "listeners",
            added("mine", "127.0.0.1", 9999),
            added("again", "127.0.0.1", 9999),
            added("mine", "127.0.0.1", 9998),
            added("taken", "0.0.0.0", 15001),  # noqa: S104 - as the proxy's own listener
        ),
    )
    context = PushContext(model)
    with caplog.at_level(logging.ERROR):
        names = [each["name"] for each in as_json(context.listeners(proxy()))]
    assert names.count("mine") == 1
    assert "again" not in names
    assert "taken" not in names
    assert {(each.resource, each.reason) for each in context.failed_patches} == {
        ("again", "another listener has the address 127.0.0.1:9999"),
        ("mine", "there is another of this name"),
        ("taken", "another listener has the address 0.0.0.0:15001"),
    }
    assert len(caplog.records) == 3
    PushContext(model, before=context).listeners(proxy())
    assert len(caplog.records) == 3


def test_routes_are_patched_by_name_and_host(model_of: Build) -> None:
    header = {"header": {"key": "x-a", "value": "b"}}
    vhost = patch(
        "VIRTUAL_HOST",
        "MERGE",
        {"request_headers_to_add": [header]},
        context="SIDECAR_OUTBOUND",
        routeConfiguration={"vhost": {"name": "web.x:80"}},
    )
    context = PushContext(model_of(WEB, envoy_filter("routes", vhost)))
    (routes,) = as_json(context.routes(proxy(), frozenset({"80"})))
    changed = [each["name"] for each in routes["virtual_hosts"] if "request_headers_to_add" in each]
    assert changed == ["web.x:80"]


def test_inbound_routes_are_patched_where_they_are_in_the_listener(model_of: Build) -> None:
    mine = {"name": "mine", "match": {"path": "/mine"}, "direct_response": {"status": 204}}
    route = patch(
        "HTTP_ROUTE",
        "INSERT_FIRST",
        mine,
        context="SIDECAR_INBOUND",
        routeConfiguration={"portNumber": 8080},
    )
    context = PushContext(model_of(WEB, envoy_filter("routes", route)))
    assert "'name': 'mine'" in str(as_json(context.listeners(proxy())))
    (routes,) = as_json(context.routes(proxy(), frozenset({"80"})))
    assert "mine" not in str(routes)


def test_extensions_are_given_by_name(model_of: Build) -> None:
    config = {"name": "mine", "typed_config": LUA["typed_config"]}
    context = PushContext(
        model_of(WEB, envoy_filter("extensions", patch("EXTENSION_CONFIG", "ADD", config)))
    )
    found = context.extensions(proxy(), frozenset({"mine", "other"}))
    (mine,) = as_json(found)
    assert mine["name"] == "mine"
    assert "envoy_on_request" in str(mine)
    assert found.removed == {"other"}
    assert not context.extensions(proxy(), frozenset({"other"})).resources


def test_what_was_patched_is_kept_from_context_to_context(model_of: Build, yaml: Documents) -> None:
    every = envoy_filter("clusters", patch("CLUSTER", "MERGE", {"connect_timeout": "3s"}))
    before = PushContext(model_of(WEB, every))
    old = before.clusters(proxy()).by_name()
    model = model_of(WEB, every, yaml.service("more", "127.1.7.1", 80, 8080), before=before.model)
    new = PushContext(model, before=before).clusters(proxy()).by_name()
    name = "outbound|80||web.x"
    assert new[name] is old[name]
    assert len(new) > len(old)


def test_a_failed_patch_leaves_the_rest_and_is_forgotten_when_it_is_mended(model_of: Build) -> None:
    broken = lua("x.broken", "ANY") | {
        "patch": {"operation": "ADD", "value": {**LUA, "name": "x.broken"}}
    }
    good = envoy_filter("good", lua("x.good"))
    context = PushContext(model_of(WEB, good, envoy_filter("broken", broken)))
    assert http_filters(context, proxy()) == {"grpc_stats fault cors good router"}
    (failure,) = context.failed_patches
    assert str(failure.patch) == "default/broken configPatches[0]"
    assert "router ends the chain" in failure.reason
    mended = model_of(WEB, good, envoy_filter("broken", lua("x.mended")), before=context.model)
    after = PushContext(mended, before=context)
    assert http_filters(after, proxy()) == {"grpc_stats fault cors mended good router"}
    assert after.failed_patches == ()
