"""Resources for a real Envoy: listeners and their routes, clusters and their endpoints, by ADS."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from google.protobuf import json_format

PACKED = (router_pb2, http_connection_manager_pb2)
"""The messages that listeners hold packed; JSON that names them is read once they are loaded."""
_TYPES = "type.googleapis.com/envoy.extensions.filters"
_ADS = {"ads": {}, "resource_api_version": "V3"}


def listener(name: str, port: int, *, routes: str, bad: bool = False) -> listener_pb2.Listener:
    """A listener of 127.0.0.1 for HTTP. bad: Envoy refuses it."""
    router = {"name": "router", "typed_config": {"@type": f"{_TYPES}.http.router.v3.Router"}}
    manager = {
        "@type": f"{_TYPES}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "rds": {"route_config_name": routes, "config_source": _ADS},
        # A router has to be the last one.
        "http_filters": [router, router] if bad else [router],
    }
    address = {"address": "127.0.0.1", "port_value": port}
    return json_format.ParseDict(
        {
            "name": name,
            "address": {"socket_address": address},
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        },
        listener_pb2.Listener(),
    )


def route(name: str, status: int, *, bad: bool = False) -> route_pb2.RouteConfiguration:
    """Routes that answer with a status. bad: Envoy refuses them, for a regular expression."""
    routes: list[Mapping[str, object]] = [
        {"match": {"prefix": "/"}, "direct_response": {"status": status}}
    ]
    if bad:
        match = {"safe_regex": {"regex": "*["}}
        routes.insert(0, {"match": match, "direct_response": {"status": status}})
    hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
    return json_format.ParseDict(
        {"name": name, "virtual_hosts": hosts}, route_pb2.RouteConfiguration()
    )


def cluster(name: str) -> cluster_pb2.Cluster:
    fields = {"type": "EDS", "connect_timeout": "1s", "eds_cluster_config": {"eds_config": _ADS}}
    return json_format.ParseDict({"name": name, **fields}, cluster_pb2.Cluster())


def endpoints(name: str, port: int, *, bad: bool = False) -> endpoint_pb2.ClusterLoadAssignment:
    """One endpoint. bad: Envoy refuses it, for its address."""
    address = {"address": "nonsense" if bad else "127.0.0.1", "port_value": port}
    each = {"endpoint": {"address": {"socket_address": address}}}
    return json_format.ParseDict(
        {"cluster_name": name, "endpoints": [{"lb_endpoints": [each]}]},
        endpoint_pb2.ClusterLoadAssignment(),
    )


async def status_of(port: int) -> int:
    """Return the status of an answer; 0 while there is no listener."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
        finally:
            writer.close()
    except OSError:
        return 0
    return int(answer.split()[1]) if answer else 0
