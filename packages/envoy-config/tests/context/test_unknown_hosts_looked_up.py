"""ALLOW_ANY_DYNAMIC_DNS: redirected proxies look unknown hosts up, unless a Sidecar says else."""

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

LOOKED_UP = "AllowAnyDynamicDNSCluster"
SERVED = entry(
    "web",
    "hosts: [web.x], addresses: [10.9.0.1], resolution: STATIC, endpoints: [{address: 10.0.0.1}],"
    " ports: [{number: 80, name: http, protocol: HTTP}, "
    "{number: 5432, name: tcp, protocol: TCP}, {number: 91, name: x}]",
)
MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec: {outboundTrafficPolicy: {mode: %s}}
"""
SIDECAR = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: s, namespace: default}
spec: {outboundTrafficPolicy: {mode: %s}}
"""


def proxy(mode: str) -> Proxy:
    metadata = {"INTERCEPTION_MODE": mode}
    identifier = "sidecar~10.0.0.5~w.default~default.svc.cluster.local"
    return proxy_of(Node(id=identifier, metadata=metadata))


def receiving(context: PushContext) -> dict[str, Any]:
    """Return the listener that all calls come to."""
    listeners = as_json(context.listeners(proxy("REDIRECT")))
    return next(each for each in listeners if each["name"] == "virtualOutbound")


def unknown(context: PushContext, mode: str) -> str | None:
    """Return the cluster of requests for unknown hosts at a port that services have."""
    (routes,) = as_json(context.routes(proxy(mode), frozenset({"80"})))
    (found,) = [each for each in routes["virtual_hosts"] if "*" in each["domains"]]
    cluster: str | None = found["routes"][-1].get("route", {}).get("cluster")
    return cluster


def test_requests_are_distinguished_from_other_bytes_before_the_rest_passes(
    model_of: Build,
) -> None:
    listener = receiving(PushContext(model_of(SERVED, MESH % "ALLOW_ANY_DYNAMIC_DNS")))

    closed, requests, rest = listener["filter_chains"]
    assert closed["name"] == "virtualOutbound-blackhole"
    assert requests["filter_chain_match"] == {"application_protocols": ["http/1.1", "h2c"]}
    routes = requests["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
    assert routes[-1]["route"]["cluster"] == LOOKED_UP
    assert rest["filters"][0]["typed_config"]["cluster"] == "PassthroughCluster"


def test_first_bytes_are_not_waited_for_where_connections_are_taken_as_they_are(
    model_of: Build,
) -> None:
    listener = receiving(PushContext(model_of(SERVED, MESH % "ALLOW_ANY_DYNAMIC_DNS")))

    destination, inspector = listener["listener_filters"]
    assert destination["name"].endswith("original_dst")
    assert inspector["name"].endswith("http_inspector")
    assert inspector["filter_disabled"] == {"destination_port_range": {"start": 5432, "end": 5433}}


@pytest.mark.parametrize(
    ("mesh", "sidecar", "wanted"),
    [
        ("ALLOW_ANY_DYNAMIC_DNS", None, LOOKED_UP),
        ("ALLOW_ANY", None, "PassthroughCluster"),
        ("REGISTRY_ONLY", None, None),
        ("ALLOW_ANY_DYNAMIC_DNS", "ALLOW_ANY", "PassthroughCluster"),
        ("ALLOW_ANY_DYNAMIC_DNS", "REGISTRY_ONLY", None),
    ],
)
def test_a_policy_of_a_sidecar_comes_before_that_of_the_mesh(
    mesh: str, sidecar: str | None, wanted: str | None, model_of: Build
) -> None:
    documents = [SERVED, MESH % mesh, *([SIDECAR % sidecar] if sidecar else [])]
    context = PushContext(model_of(*documents))

    assert unknown(context, "REDIRECT") == wanted
    chains = [each["name"] for each in receiving(context)["filter_chains"]]
    assert ("virtualOutbound-catchall-http" in chains) == (wanted == LOOKED_UP)


def test_where_nothing_is_intercepted_it_is_as_allow_any(model_of: Build) -> None:
    contexts = [
        PushContext(model_of(SERVED, MESH % mode))
        for mode in ("ALLOW_ANY", "ALLOW_ANY_DYNAMIC_DNS")
    ]

    assert [unknown(each, "NONE") for each in contexts] == ["PassthroughCluster"] * 2
    usual, looked_up = (as_json(each.clusters(proxy("NONE"))) for each in contexts)
    assert usual == looked_up
