"""gRPC's own xDS client in a process of its own, what it is configured with, and what it calls."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from mesh_testkit import PATIENCE_S

TARGET = "web"
_ADS = {"ads": {}, "resource_api_version": "V3"}
_CLIENT = """
import sys
import grpc, grpc_csds
from envoy.service.status.v3 import csds_pb2

channel = grpc.insecure_channel("xds:///web")
ask = channel.unary_unary("/test.Who/AmI", None, None)
for line in sys.stdin:
    if line.strip() == "ask":
        print(ask(b"", wait_for_ready=True).decode(), flush=True)
    else:
        servicer = grpc_csds.ClientStatusDiscoveryServiceServicer()
        status = servicer.FetchClientStatus(csds_pb2.ClientStatusRequest(), None)
        states = {
            kind.type_url.rpartition(".")[2] + " " + str(kind.client_status)
            for config in status.config for kind in config.generic_xds_configs
        }
        print(", ".join(sorted(states)), flush=True)
"""
ALL_ACCEPTED = "Cluster 3, ClusterLoadAssignment 3, Listener 3, RouteConfiguration 3"


def program_at(port: int, *, cluster: str = "cluster") -> list[tuple[str, Message]]:
    """Return what a client of `TARGET` asks for, by name: listener, route, cluster, endpoints."""
    manager = http_connection_manager_pb2.HttpConnectionManager()
    ParseDict({"rds": {"route_config_name": "route", "config_source": _ADS}}, manager)
    manager.http_filters.add(name="router").typed_config.Pack(router_pb2.Router())
    listener = listener_pb2.Listener(name=TARGET)
    listener.api_listener.api_listener.Pack(manager)
    to_cluster = {"match": {"prefix": ""}, "route": {"cluster": cluster}}
    hosts = [{"name": TARGET, "domains": ["*"], "routes": [to_cluster]}]
    eds = {"type": "EDS", "eds_cluster_config": {"eds_config": _ADS}}
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    locality = {
        "locality": {"region": "here"},
        "load_balancing_weight": 1,
        "lb_endpoints": [{"endpoint": {"address": address}, "load_balancing_weight": 1}],
    }
    return [
        (TARGET, listener),
        (
            "route",
            ParseDict({"name": "route", "virtual_hosts": hosts}, route_pb2.RouteConfiguration()),
        ),
        (cluster, ParseDict({"name": cluster, **eds}, cluster_pb2.Cluster())),
        (
            cluster,
            ParseDict(
                {"cluster_name": cluster, "endpoints": [locality]},
                endpoint_pb2.ClusterLoadAssignment(),
            ),
        ),
    ]


@asynccontextmanager
async def answering(word: bytes) -> AsyncIterator[int]:
    """Run a server that answers the client with a word. Yields its port."""

    async def answer(_request: bytes, _context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return word

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Who", {"AmI": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


class GrpcClient:
    """A running client; created by `grpc_client`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self) -> str:
        """Have it call its target. Returns the answer."""
        return await self._tell("ask")

    async def states(self) -> str:
        """Return the states of what it was configured with, as in `ALL_ACCEPTED`."""
        return await self._tell("status")

    async def _tell(self, what: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what.encode() + b"\n")
        async with asyncio.timeout(PATIENCE_S):
            return (await self._process.stdout.readline()).decode().strip()


@asynccontextmanager
async def grpc_client(socket_path: Path) -> AsyncIterator[GrpcClient]:
    """Run a client of `TARGET` that takes its configuration from a relay's socket."""
    server = {
        "server_uri": f"unix:{socket_path}",
        "channel_creds": [{"type": "insecure"}],
        "server_features": ["xds_v3"],
    }
    bootstrap = {"xds_servers": [server], "node": {"id": "sidecar~10.0.0.9~caller.shop~shop.local"}}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _CLIENT),
        env={
            **os.environ,
            "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap),
            "no_grpc_proxy": "*",
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield GrpcClient(process)
    finally:
        process.kill()
        await process.communicate()
