"""EnvoyFilters, with real Envoys."""

from pathlib import Path
from typing import Any

import pytest

from envoy_filters import MANAGER
from gateway_documents import gateway, server, to, virtual_service
from gateway_scenes import plain_service
from patch_documents import (
    FILTERS,
    adding,
    before_router,
    envoy_filter,
    lua_filter,
    patch,
    response_header,
)
from planes import eventually
from scenarios import MeshEnvoy, Scene

SERVER = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{{address: {address}}}]
"""


async def serve(scene: Scene, name: str, labels: dict[str, str]) -> MeshEnvoy:
    """Start a workload of namespace b with its sidecar."""
    address = scene.network.address()
    document: dict[str, Any] = {name: SERVER.format(name=name, address=address)}
    await scene.apply(**document)
    sidecar = await scene.sidecar(
        name, namespace="b", service_account=name, labels=labels, address=address
    )
    await scene.echo(name, address=sidecar.app_address)
    return sidecar


async def test_filters_run_at_the_workloads_that_they_are_for_in_their_order(scene: Scene) -> None:
    """Scenario 64."""
    await serve(scene, "s", {"x": "yes"})
    await serve(scene, "t", {"x": "no"})
    client = await scene.sidecar("c", namespace="a", service_account="c")

    def filters(late: int, early: int) -> dict[str, Any]:
        at: dict[str, Any] = {"workloadSelector": {"labels": {"x": "yes"}}, "namespace": "b"}
        one = before_router(lua_filter(adding("x-order", "one")), "SIDECAR_INBOUND")
        two = before_router(lua_filter(adding("x-order", "two")), "SIDECAR_INBOUND")
        return {
            "one": envoy_filter("one", one, priority=late, **at),
            "two": envoy_filter("two", two, priority=early, **at),
        }

    async def order(host: str) -> list[str]:
        answer = await client.get(f"http://{host}/")
        if answer.status == 503:  # its connection was closed with the listener it came by
            return ["503"]
        seen = answer.seen
        return [value for name, value in seen.header_list if name == "x-order"]

    async def becomes(*wanted: str) -> None:
        # Connections between proxies stay for a while, with the filters that they began with.
        await eventually(lambda: order("s.b"), wanted=list(wanted), what="the order of filters")

    await scene.apply(**filters(0, -5))
    await becomes("two", "one")
    assert await order("t.b") == []

    await scene.apply(**filters(-10, -5))
    await becomes("one", "two")

    await scene.apply(one=None, two=None)
    await becomes()
    assert not scene.refused()


async def test_filters_are_removed(scene: Scene) -> None:
    """Scenario 64."""
    reviews = await scene.reviews()
    await scene.apply(
        vs="""\
        apiVersion: networking.istio.io/v1
        kind: VirtualService
        metadata: {name: s, namespace: b}
        spec:
          hosts: [s.b.svc.cluster.local]
          http:
          - corsPolicy: {allowOrigins: [{exact: 'http://shop.example'}], allowMethods: [GET]}
            route: [{destination: {host: s.b.svc.cluster.local}}]
        """
    )
    headers = {"Origin": "http://shop.example", "Access-Control-Request-Method": "GET"}

    async def preflight() -> str | None:
        answer = await reviews.client.get("http://s.b/", method="OPTIONS", headers=headers)
        return answer.headers.get("access-control-allow-origin")

    assert await preflight() == "http://shop.example"

    cors = {"filter": {"name": MANAGER, "subFilter": {"name": "envoy.filters.http.cors"}}}
    removal = patch(
        "HTTP_FILTER", "REMOVE", context="SIDECAR_OUTBOUND", listener={"filterChain": cors}
    )
    await scene.apply(filters=envoy_filter("no-cors", removal))

    assert await preflight() is None
    assert not scene.refused()


def failures_of(scene: Scene) -> str:
    (failure,) = scene.plane.context.failed_patches
    return failure.reason


BROKEN = {
    "after-the-router": patch(
        "HTTP_FILTER", "ADD", lua_filter(adding("x-broken", "yes")), context="ANY"
    ),
    "renamed": patch("CLUSTER", "MERGE", {"name": "other"}),
    "two-alike": patch(
        "FILTER_CHAIN",
        "ADD",
        {
            "filters": [
                {
                    "name": "envoy.filters.network.tcp_proxy",
                    "typed_config": {
                        "@type": f"{FILTERS}.network.tcp_proxy.v3.TcpProxy",
                        "stat_prefix": "x",
                        "cluster": "x",
                    },
                }
            ]
        },
    ),
    "not-merged": patch(
        "NETWORK_FILTER",
        "MERGE",
        {
            "name": MANAGER,
            "typed_config": {
                "@type": f"{FILTERS}.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "x",
            },
        },
        listener={"filterChain": {"filter": {"name": MANAGER}}},
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
async def test_a_broken_patch_leaves_traffic_and_other_patches_working(
    name: str, scene: Scene
) -> None:
    """Scenario 64."""
    reviews = await scene.reviews()
    good = before_router(lua_filter(adding("x-good", "yes")), "SIDECAR_OUTBOUND")
    await scene.apply(
        broken=envoy_filter("broken", BROKEN[name]), good=envoy_filter("good", good, priority=1)
    )
    answer = await reviews.client.get("http://s.b/")
    assert answer.status == 200
    assert answer.seen.headers["x-good"] == "yes"
    assert not scene.refused()
    failed = {str(each.patch) for each in scene.plane.context.failed_patches}
    assert failed == {"a/broken configPatches[0]"}
    (patch,) = scene.plane.pages.status()["patches"]
    assert (Path(patch["file"]).name, patch["field"]) == ("broken.yaml", "spec.configPatches[0]")
    assert patch["message"].startswith(failures_of(scene))


async def test_filters_get_their_configuration_by_name(scene: Scene) -> None:
    """P76: the dialect that is not delta has no way to say that a resource is gone."""
    await scene.reviews()
    client = await scene.sidecar("delta", namespace="a", delta=True)
    discovery = {
        "name": "mine",
        "config_discovery": {
            "config_source": {"ads": {}, "resource_api_version": "V3"},
            "type_urls": [f"{FILTERS}.http.lua.v3.Lua"],
            "default_config": lua_filter(adding("x-from", "default"))["typed_config"],
        },
    }

    def extension(value: str) -> str:
        config = {
            "name": "mine",
            "typed_config": lua_filter(adding("x-from", value))["typed_config"],
        }
        other = {**config, "name": "other"}
        return envoy_filter(
            "extension",
            patch("EXTENSION_CONFIG", "ADD", config),
            patch("EXTENSION_CONFIG", "ADD", other),
        )

    async def has(value: str) -> None:
        async def look() -> bool:
            return (await client.get("http://s.b/")).seen.headers.get("x-from") == value

        await eventually(look, what=f"the configuration that says {value}")

    await scene.apply(
        filter=envoy_filter("filter", before_router(discovery, "SIDECAR_OUTBOUND")),
        extension=extension("one"),
    )
    await has("one")
    await scene.apply(extension=extension("two"))
    await has("two")
    await scene.apply(extension=None)
    await has("default")
    assert not scene.refused()


async def test_clusters_get_circuit_breakers(scene: Scene) -> None:
    """P72."""
    reviews = await scene.reviews()
    breakers = {"circuit_breakers": {"thresholds": [{"max_requests": 0}]}}
    await scene.apply(
        filters=envoy_filter(
            "breakers",
            patch(
                "CLUSTER",
                "MERGE_AND_REPLACE_LIST",
                breakers,
                context="SIDECAR_OUTBOUND",
                cluster={"service": "s.b.svc.cluster.local", "portNumber": 80},
            ),
        )
    )
    assert (await reviews.client.get("http://s.b/x")).status == 503
    assert (await reviews.client.logged(path="/x"))["response_flags"] == "UO"
    await scene.apply(filters=None)
    assert (await reviews.client.get("http://s.b/")).status == 200
    assert not scene.refused()


async def test_hosts_and_routes_of_sidecars_are_patched(scene: Scene) -> None:
    """P72."""
    reviews = await scene.reviews()
    at = {"name": "s.b.svc.cluster.local:80"}
    mine = {"name": "mine", "match": {"path": "/mine"}, "direct_response": {"status": 204}}
    context = {"context": "SIDECAR_OUTBOUND"}
    await scene.apply(
        filters=envoy_filter(
            "routes",
            patch(
                "VIRTUAL_HOST",
                "MERGE",
                response_header("host"),
                routeConfiguration={"portNumber": 80, "vhost": at},
                **context,
            ),
            patch("HTTP_ROUTE", "INSERT_FIRST", mine, routeConfiguration={"vhost": at}, **context),
            patch(
                "HTTP_ROUTE",
                "MERGE",
                response_header("route"),
                routeConfiguration={"vhost": {**at, "route": {"action": "ROUTE"}}},
                **context,
            ),
        )
    )
    answer = await reviews.client.get("http://s.b/")
    assert [value for name, value in answer.header_list if name == "x-patched"] == ["route", "host"]
    assert (await reviews.client.get("http://s.b/mine")).status == 204
    assert not scene.refused()


async def test_a_listener_is_added_and_removed(scene: Scene) -> None:
    """P72."""
    reviews = await scene.reviews()
    port = scene.port()
    route = {
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": "hi"}},
    }
    manager = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "mine",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{FILTERS}.http.router.v3.Router"},
            }
        ],
    }
    where = {"address": reviews.client.outbound_address, "port_value": port}
    listener = {
        "name": "mine",
        "address": {"socket_address": where},
        "filter_chains": [{"filters": [{"name": MANAGER, "typed_config": manager}]}],
    }
    await scene.apply(filters=envoy_filter("listener", patch("LISTENER", "ADD", listener)))
    assert (await reviews.client.get(f"http://any:{port}/")).body == "hi"

    await scene.apply(filters=None)

    async def closed() -> bool:
        try:
            await reviews.client.get(f"http://any:{port}/")
        except OSError:
            return True
        return False

    await eventually(closed, what="the listener being gone")
    assert not scene.refused()


async def test_patches_are_for_versions_of_proxies(scene: Scene) -> None:
    """P72."""
    reviews = await scene.reviews()
    new = await scene.sidecar("new", namespace="a", metadata={"ISTIO_VERSION": "1.30.1"})
    value = lua_filter(adding("x-new", "yes"))
    some = before_router(value, "SIDECAR_OUTBOUND", proxy={"proxyVersion": r"^1\.30.*"})
    await scene.apply(filters=envoy_filter("some", some))
    assert (await new.get("http://s.b/")).seen.headers["x-new"] == "yes"
    assert "x-new" not in (await reviews.client.get("http://s.b/")).seen.headers


async def test_hosts_and_routes_of_gateways_are_patched(scene: Scene) -> None:
    """P72."""
    await plain_service(scene)
    router, port = await scene.router(), scene.port()

    def at_gateway(number: int) -> str:
        at = {"portNumber": number}
        by_domain = {"portNumber": number, "vhost": {"domainName": "a.example"}}
        return envoy_filter(
            "routes",
            patch(
                "VIRTUAL_HOST",
                "MERGE",
                response_header("host"),
                context="GATEWAY",
                routeConfiguration=at,
            ),
            patch(
                "HTTP_ROUTE",
                "MERGE",
                response_header("route"),
                context="GATEWAY",
                routeConfiguration=by_domain,
            ),
            before_router(lua_filter(adding("x-lua", "yes")), "GATEWAY"),
            namespace="b",
            workloadSelector={"labels": {"istio": "ingressgateway"}},
        )

    await scene.apply(
        gw=gateway(server("HTTP", port, "*")),
        vs=virtual_service("a.example", "b.example", http=[{"route": to()}]),
        filters=at_gateway(port),
    )

    async def patched(host: str) -> list[str]:
        answer = await router.get(f"http://{host}:{port}/")
        assert answer.seen.headers["x-lua"] == "yes"
        return [value for name, value in answer.header_list if name == "x-patched"]

    assert await patched("a.example") == ["route", "host"]
    assert await patched("b.example") == ["host"]
    await scene.apply(filters=at_gateway(port + 1))
    assert await patched("a.example") == []
    assert not scene.refused()
