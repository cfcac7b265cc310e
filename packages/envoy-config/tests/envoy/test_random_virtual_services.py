"""Envoy takes every route of every VirtualService that is found to be right."""

import asyncio
import json
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from documents import document
from envoy_config.generate._filters import route_filters
from envoy_config.generate._messages import route_components_pb2
from envoy_config.generate.routes._http_routes import RoutePlace, http_routes
from envoy_config.plan.virtual_hosts._targets import http_targets
from istio_config import read_content, snapshot_of
from mesh_model import Facts, Scope, ScopeKey, build_model
from random_virtual_services import RandomVirtualServices

SEED = 1
WANTED = 400
PREFIX = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."


def routes_of(spec: dict[str, Any]) -> list[route_components_pb2.Route] | None:
    """Return the routes at a gateway, where claims are looked at too; None of a wrong spec."""
    text = document("VirtualService", "v", json.dumps(spec))
    content = read_content(text.encode(), file="v.yaml")
    if content.problems:
        return None
    (found,) = build_model(Facts(snapshot=snapshot_of([content]))).virtual_services.all
    place = RoutePlace(80, gateway="a/g", namespace="a")
    scope = Scope(key=ScopeKey("a"), services={}, egress=())
    return http_routes(found, place, http_targets(found.spec, 80, scope), default_retries=None)


def right_ones(wanted: int) -> list[list[route_components_pb2.Route]]:
    """Return the routes of so many VirtualServices that are right."""
    source = RandomVirtualServices(SEED)
    found: list[list[route_components_pb2.Route]] = []
    while len(found) < wanted:
        routes = routes_of(source.spec())
        if routes is not None:
            found.append(routes)
    return found


def bootstrap(tables: list[list[route_components_pb2.Route]]) -> str:
    """Return a configuration of one listener, with a virtual host for each table."""
    hosts = [
        MessageToDict(
            route_components_pb2.VirtualHost(name=str(at), domains=[f"h{at}"], routes=routes)
        )
        for at, routes in enumerate(tables)
    ]
    manager = {
        "@type": f"{PREFIX}HttpConnectionManager",
        "statPrefix": "x",
        "httpFilters": [MessageToDict(each) for each in route_filters()],
        "routeConfig": {"virtualHosts": hosts, "validateClusters": False},
    }
    address = {"socketAddress": {"address": "127.0.0.1", "portValue": 0}}
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typedConfig": manager}]
    listener = {"name": "l", "address": address, "filterChains": [{"filters": filters}]}
    # As agents have it.
    runtime = {"re2.max_program_size.error_level": "32768"}
    layers = [{"name": "static", "staticLayer": runtime}]
    return json.dumps(
        {"staticResources": {"listeners": [listener]}, "layeredRuntime": {"layers": layers}}
    )


async def refusal(binary: Path, file: Path) -> str:
    """Return Envoy's words if it refuses a configuration, else nothing."""
    arguments = ("--mode", "validate", "--concurrency", "1", "-l", "error", "-c", str(file))
    process = await asyncio.create_subprocess_exec(
        str(binary),
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await process.communicate()
    return "" if process.returncode == 0 else stderr.decode(errors="replace")[-2000:]


async def test_envoy_takes_the_routes_of_all_virtual_services_that_are_right(
    tmp_path: Path, envoy_binary: Path
) -> None:
    tables = right_ones(WANTED)
    file = tmp_path / "bootstrap.json"
    file.write_text(bootstrap(tables))

    assert sum(map(len, tables)) >= WANTED
    assert await refusal(envoy_binary, file) == ""
