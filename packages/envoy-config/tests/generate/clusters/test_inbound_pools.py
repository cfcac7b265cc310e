"""Limits of what comes in: the service's DestinationRule, which a Sidecar's pools replace."""

from collections.abc import Callable
from typing import Any

import pytest

from documents import entry
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel
from proxies import as_json, proxy, proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]

SERVED = entry(
    "own",
    "hosts: [own.x], resolution: STATIC, "
    "ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}],"
    " endpoints: [{address: 127.93.1.1}]",
)
RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: own, namespace: default}
spec: {host: own.x, trafficPolicy: {connectionPool: {tcp: {maxConnections: 11}}}}
"""


def sidecar(spec: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
        f"metadata: {{name: default, namespace: default}}\nspec: {spec}\n"
    )


def redirected() -> Proxy:
    return proxy_of(
        Node(
            id="sidecar~127.93.1.1~w.default~default.svc.cluster.local",
            metadata={"INTERCEPTION_MODE": "REDIRECT"},
        )
    )


def limits(context: PushContext, of: Proxy) -> dict[str, Any]:
    return {
        each["name"]: each["circuit_breakers"]["thresholds"][0]["max_connections"]
        for each in as_json(context.clusters(of))
        if each["name"].startswith("inbound|")
    }


@pytest.mark.parametrize("of", [proxy(), redirected()], ids=["not intercepted", "redirected"])
def test_a_sidecars_pool_replaces_that_of_the_rule(of: Proxy, model_of: Build) -> None:
    pool = sidecar("{inboundConnectionPool: {tcp: {maxConnections: 12}}}")

    assert limits(PushContext(model_of(SERVED, RULE)), of) == {"inbound|8080||": 11}
    assert limits(PushContext(model_of(SERVED, RULE, pool)), of) == {"inbound|8080||": 12}


@pytest.mark.parametrize("of", [proxy(), redirected()], ids=["not intercepted", "redirected"])
def test_a_ports_own_pool_comes_before_that_of_the_sidecar(of: Proxy, model_of: Build) -> None:
    pools = sidecar(
        "{inboundConnectionPool: {tcp: {maxConnections: 12}}, ingress: ["
        "{port: {number: 8080, protocol: HTTP}, connectionPool: {tcp: {maxConnections: 13}}},"
        " {port: {number: 9090, protocol: TCP}}]}"
    )

    assert limits(PushContext(model_of(SERVED, RULE, pools)), of) == {
        "inbound|8080||": 13,
        "inbound|9090||": 12,
    }
