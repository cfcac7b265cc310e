"""One proxy's own ProxyConfig shows in its listeners and routes, and in no other proxy's."""

from collections.abc import Callable
from typing import Any

import pytest

from documents import entry
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel
from proxies import as_json, proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]

SERVED = entry(
    "web",
    "hosts: [web.x], resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}],"
    " endpoints: [{address: 10.0.0.1}]",
)
CONFIG = {
    "proxyHeaders": {"server": {"value": "own"}, "attemptCount": {"disabled": True}},
    "connectionSettings": {"httpIdleTimeout": "11s"},
}


def proxy(mode: str, config: dict[str, Any] | None) -> Proxy:
    metadata: dict[str, Any] = {"INTERCEPTION_MODE": mode}
    if config is not None:
        metadata["PROXY_CONFIG"] = config
    return proxy_of(
        Node(id="sidecar~10.0.0.1~w.default~default.svc.cluster.local", metadata=metadata)
    )


def settings(context: PushContext, of: Proxy) -> set[tuple[str, str]]:
    """Return the server header and idle timeout of each connection manager."""
    managers = [
        found["typed_config"]
        for listener in as_json(context.listeners(of))
        for chain in listener["filter_chains"]
        for found in chain["filters"]
        if "http_connection_manager" in found["name"]
    ]
    assert managers
    return {
        (
            each.get("server_name", ""),
            each.get("common_http_protocol_options", {}).get("idle_timeout", ""),
        )
        for each in managers
    }


@pytest.mark.parametrize("mode", ["NONE", "REDIRECT"])
def test_its_own_settings_are_in_its_listeners_alone(mode: str, model_of: Build) -> None:
    context = PushContext(model_of(SERVED))
    own, other = proxy(mode, CONFIG), proxy(mode, None)

    assert settings(context, own) == {("own", "11s")}
    assert settings(context, other) == {("istio-envoy", ""), ("", "")}


@pytest.mark.parametrize("mode", ["NONE", "REDIRECT"])
def test_its_own_headers_are_in_its_routes_alone(mode: str, model_of: Build) -> None:
    context = PushContext(model_of(SERVED))

    def counts_attempts(of: Proxy) -> set[bool]:
        (routes,) = as_json(context.routes(of, frozenset({"80"})))
        return {
            each.get("include_request_attempt_count", False) for each in routes["virtual_hosts"]
        }

    assert counts_attempts(proxy(mode, CONFIG)) == {False}
    assert counts_attempts(proxy(mode, None)) == {True}


@pytest.mark.parametrize("mode", ["NONE", "REDIRECT"])
def test_proxies_of_equal_settings_share_their_listeners(mode: str, model_of: Build) -> None:
    context = PushContext(model_of(SERVED))
    one, two = proxy(mode, CONFIG), proxy(mode, {**CONFIG, "concurrency": 2})

    assert context.listeners(one) is context.listeners(two)
