"""HTTP10, IDLE_TIMEOUT and INBOUND_LISTENER_EXACT_BALANCE of a node show in its listeners alone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from documents import entry
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel
from proxies import as_json, proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]

MESH = [
    entry(
        "web",
        "hosts: [web.x], resolution: STATIC, "
        "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080},"
        " {number: 90, name: tcp, protocol: TCP}, "
        "{number: 91, name: auto}], endpoints: [{address: 10.0.0.1}]",
    ),
    entry(
        "db",
        "hosts: [db.x], addresses: [10.9.0.1], resolution: STATIC,"
        " ports: [{number: 5432, name: tcp, protocol: TCP}, "
        "{number: 5433, name: tcp-quick, protocol: TCP}],"
        " endpoints: [{address: 10.0.0.7}]",
    ),
    """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: db, namespace: default}
spec:
  host: db.x
  trafficPolicy:
    portLevelSettings:
    - {port: {number: 5433}, connectionPool: {tcp: {idleTimeout: 7s}}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  selector: {istio: gw}
  servers:
  - {port: {number: 8081, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 8082, name: tcp, protocol: TCP}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: tcp, namespace: default}
spec:
  hosts: ["*"]
  gateways: [gw]
  tcp: [{route: [{destination: {host: db.x, port: {number: 5432}}}]}]
""",
]
KINDS = [("sidecar", "NONE"), ("sidecar", "REDIRECT"), ("sidecar", "TPROXY"), ("router", "")]
each_kind = pytest.mark.parametrize(("kind", "mode"), KINDS)


def proxy(kind: str, mode: str, **metadata: Any) -> Proxy:
    if mode:
        metadata["INTERCEPTION_MODE"] = mode
    return proxy_of(
        Node(
            id=f"{kind}~10.0.0.1~w.default~default.svc.cluster.local",
            metadata={"LABELS": {"istio": "gw"}, **metadata},
        )
    )


def filters(listeners: list[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Yield the settings of all filters of a name."""
    for listener in listeners:
        default = listener.get("default_filter_chain")
        for chain in (*listener["filter_chains"], *([default] if default else [])):
            for each in chain["filters"]:
                if each["name"].endswith(name):
                    yield each["typed_config"]


@each_kind
def test_http_1_0_is_taken_where_the_node_says_so(kind: str, mode: str, model_of: Build) -> None:
    context = PushContext(model_of(*MESH))

    def taken(of: Proxy) -> set[bool]:
        managers = filters(as_json(context.listeners(of)), "http_connection_manager")
        return {
            each.get("http_protocol_options", {}).get("accept_http_10", False) for each in managers
        }

    assert taken(proxy(kind, mode, HTTP10="1")) == {True}
    assert taken(proxy(kind, mode)) == {False}


def test_requests_of_http_1_0_are_distinguished_from_other_bytes(model_of: Build) -> None:
    context = PushContext(model_of(*MESH))

    def found(of: Proxy) -> set[tuple[str, ...]]:
        return {
            tuple(alpn)
            for listener in as_json(context.listeners(of))
            for chain in listener["filter_chains"]
            if "h2c"
            in (alpn := chain.get("filter_chain_match", {}).get("application_protocols", ()))
        }

    own = proxy("sidecar", "REDIRECT", HTTP10="1")
    assert found(own) == {("http/1.0", "http/1.1", "h2c")}
    assert found(proxy("sidecar", "REDIRECT")) == {("http/1.1", "h2c")}


@each_kind
def test_connections_have_the_idle_timeout_of_the_node(
    kind: str, mode: str, model_of: Build
) -> None:
    context = PushContext(model_of(*MESH))

    def idle(of: Proxy, name: str) -> dict[str, str | None]:
        return {
            each["stat_prefix"]: each.get("idle_timeout")
            or each.get("common_http_protocol_options", {}).get("idle_timeout")
            for each in filters(as_json(context.listeners(of)), name)
            if each["stat_prefix"] != "BlackHoleCluster"
        }

    own, other = proxy(kind, mode, IDLE_TIMEOUT="30s"), proxy(kind, mode)
    by_rule = {"outbound|5433||db.x"}

    assert set(idle(own, "http_connection_manager").values()) == {"30s"}
    assert set(idle(other, "http_connection_manager").values()) == {None}
    tcp = idle(own, "tcp_proxy")
    assert {name for name, each in tcp.items() if each == "7s"} == (
        by_rule if kind == "sidecar" else set()
    )
    assert {each for name, each in tcp.items() if name not in by_rule} == {"30s"}
    assert {each for name, each in idle(other, "tcp_proxy").items() if name not in by_rule} == {
        None
    }
    if kind == "sidecar" and mode != "NONE":
        assert tcp["PassthroughCluster"] == tcp["InboundPassthroughCluster"] == "30s"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"30s"}),
        ({"profile": "EDGE"}, {"30s"}),
        ({"profile": "EDGE", "httpIdleTimeout": "11s"}, {"11s"}),
    ],
)
def test_an_idle_timeout_of_connection_settings_comes_before_that_of_the_node(
    settings: dict[str, Any], wanted: set[str], model_of: Build
) -> None:
    context = PushContext(model_of(*MESH))
    router = proxy("router", "", IDLE_TIMEOUT="30s", PROXY_CONFIG={"connectionSettings": settings})

    managers = filters(as_json(context.listeners(router)), "http_connection_manager")

    assert {each["common_http_protocol_options"]["idle_timeout"] for each in managers} == wanted


@each_kind
def test_inbound_connections_alone_are_balanced_where_the_node_says_so(
    kind: str, mode: str, model_of: Build
) -> None:
    context = PushContext(model_of(*MESH))

    def balanced(of: Proxy) -> set[tuple[str, bool]]:
        return {
            (each["traffic_direction"], "connection_balance_config" in each)
            for each in as_json(context.listeners(of))
        }

    own = proxy(kind, mode, INBOUND_LISTENER_EXACT_BALANCE="true")
    inbound = {("INBOUND", True)} if kind == "sidecar" else set()
    assert balanced(own) == {("OUTBOUND", False), *inbound}
    assert not any(balances for _, balances in balanced(proxy(kind, mode)))


@each_kind
def test_proxies_of_equal_metadata_share_their_listeners(
    kind: str, mode: str, model_of: Build
) -> None:
    context = PushContext(model_of(*MESH))
    one, two = (proxy(kind, mode, IDLE_TIMEOUT=text, HTTP10="1") for text in ("60s", "1m"))

    assert context.listeners(one) is context.listeners(two)
