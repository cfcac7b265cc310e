"""What Envoy itself refuses in clusters, listeners and routes is found, and what it takes is not.

The files of `refusals` hold resources, each with the mistake that is reported for it.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.message import Message

from envoy_config.patch._acceptance import listener_mistakes, route_mistakes
from envoy_config.patch._cluster_acceptance import cluster_mistakes
from istio_config.envoy_api import find_type, message_of

Json = dict[str, Any]
REFUSALS = Path(__file__).parent / "refusals"
FILTERS = "type.googleapis.com/envoy.extensions.filters"
HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
ROUTER = {"name": "router", "typed_config": {"@type": f"{FILTERS}.http.router.v3.Router"}}
CORS = {"name": "cors", "typed_config": {"@type": f"{FILTERS}.http.cors.v3.Cors"}}
ADDRESS = {"socket_address": {"address": "127.0.0.1", "port_value": 18888}}
TYPES: dict[str, tuple[str, Json]] = {
    "clusters": ("envoy.config.cluster.v3.Cluster", {"name": "c", "connect_timeout": "1s"}),
    "listeners": ("envoy.config.listener.v3.Listener", {"name": "l", "address": ADDRESS}),
    "routes": ("envoy.config.route.v3.RouteConfiguration", {}),
}
MISTAKES: dict[str, Callable[[Any], Iterator[str]]] = {
    "clusters": cluster_mistakes,
    "listeners": listener_mistakes,
    "routes": route_mistakes,
}


def cases() -> Iterator[Any]:
    for kind in TYPES:
        for each in yaml.safe_load((REFUSALS / f"{kind}.yaml").read_text()):
            yield pytest.param(kind, each, id=f"{kind}: {each['of']}")


def resource(kind: str, value: Json) -> Json:
    return {**TYPES[kind][1], **value}


def message(kind: str, value: Json) -> Message:
    descriptor = find_type(TYPES[kind][0])
    assert descriptor is not None
    return message_of(resource(kind, value), descriptor)


@pytest.mark.parametrize(("kind", "case"), list(cases()))
def test_what_envoy_refuses_is_found_and_what_it_takes_is_not(kind: str, case: Json) -> None:
    found = list(MISTAKES[kind](message(kind, case["value"])))
    assert found[:1] == ([case["says"]] if case["says"] else [])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), list(cases()))
def test_envoy_says_so_itself(kind: str, case: Json, tmp_path: Path, envoy_binary: Path) -> None:
    file = tmp_path / "envoy.json"
    file.write_text(json.dumps(bootstrap(kind, resource(kind, case["value"]))))
    done = subprocess.run(
        [envoy_binary, "--mode", "validate", "--config-path", file, "--log-level", "error"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode != 0) == bool(case["says"]), done.stderr[-2000:]


def bootstrap(kind: str, resource: Json) -> Json:
    """Return a bootstrap with a resource, the clusters `black` and `xds`, and ADS."""
    options = {
        "@type": f"type.googleapis.com/{HTTP}",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    endpoint = {"endpoint": {"address": {"pipe": {"path": "/nowhere"}}}}
    places = {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [endpoint]}]}
    clusters = [
        {"name": "black", "type": "STATIC", "load_assignment": {"cluster_name": "black"}},
        {
            "name": "xds",
            "type": "STATIC",
            "load_assignment": places,
            "typed_extension_protocol_options": {HTTP: options},
        },
    ]
    source = {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
    }
    return {
        "node": {"id": "a", "cluster": "b"},
        "dynamic_resources": {"ads_config": source},
        "static_resources": {
            "clusters": [*clusters, *([resource] if kind == "clusters" else [])],
            "listeners": {"clusters": [], "listeners": [resource], "routes": [around(resource)]}[
                kind
            ],
        },
    }


def around(routes: Json) -> Json:
    """Return a listener with routes in it."""
    config = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "x",
        "route_config": routes,
        "http_filters": [CORS, ROUTER],
    }
    chain = {"filters": [{"name": "http", "typed_config": config}]}
    return {"name": "l", "address": ADDRESS, "filter_chains": [chain]}
