"""gRPC's own xDS client, which asks for each thing by name: listener, route, cluster, endpoints."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from google.protobuf.json_format import ParseDict

from xds_server import (
    PlainListener,
    Resource,
    Snapshot,
    SnapshotStore,
    UnixListener,
    XdsServer,
    serving,
)
from xds_server.testing import admit_all

CLIENT = """
import sys
import grpc, grpc_csds
from envoy.service.status.v3 import csds_pb2

channel = grpc.insecure_channel("xds:///web")
ask = channel.unary_unary("/test.Who/AmI", None, None)
for line in sys.stdin:
    if line.strip() == "ask":
        print(ask(b"", wait_for_ready=True, timeout=10).decode(), flush=True)
    else:
        servicer = grpc_csds.ClientStatusDiscoveryServiceServicer()
        status = servicer.FetchClientStatus(csds_pb2.ClientStatusRequest(), None)
        states = {
            (kind.type_url.rpartition(".")[2], kind.client_status)
            for config in status.config for kind in config.generic_xds_configs
        }
        print(sorted(states), flush=True)
"""

ADS = {"ads": {}, "resource_api_version": "V3"}
ACKED = 3


def snapshot(port: int) -> Snapshot:
    manager = http_connection_manager_pb2.HttpConnectionManager()
    ParseDict({"rds": {"route_config_name": "route", "config_source": ADS}}, manager)
    manager.http_filters.add(name="router").typed_config.Pack(router_pb2.Router())
    listener: Any = listener_pb2.Listener(name="web")
    listener.api_listener.api_listener.Pack(manager)
    to_cluster = {"match": {"prefix": ""}, "route": {"cluster": "cluster"}}
    hosts = [{"name": "web", "domains": ["*"], "routes": [to_cluster]}]
    route = ParseDict({"name": "route", "virtual_hosts": hosts}, route_pb2.RouteConfiguration())
    eds = {"type": "EDS", "eds_cluster_config": {"eds_config": ADS, "service_name": "shard"}}
    cluster = ParseDict({"name": "cluster", **eds}, cluster_pb2.Cluster())
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    locality = {
        "locality": {"region": "here"},
        "load_balancing_weight": 1,
        "lb_endpoints": [{"endpoint": {"address": address}, "load_balancing_weight": 1}],
    }
    endpoints = ParseDict(
        {"cluster_name": "shard", "endpoints": [locality]}, endpoint_pb2.ClusterLoadAssignment()
    )
    named: list[tuple[str, Any]] = [
        ("web", listener),
        ("route", route),
        ("cluster", cluster),
        ("shard", endpoints),
    ]
    return Snapshot.of(Resource.pack(message, name=name) for name, message in named)


class Says(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, word: bytes) -> None:
        self._word = word

    def service(self, _handler_call_details: Any) -> Any:
        async def answer(_request: bytes, _context: Any) -> bytes:
            return self._word

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def backend(word: bytes) -> AsyncIterator[int]:
    server = grpc.aio.server(handlers=[Says(word)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


class GrpcClient:
    """A process of its own, as the bootstrap is read once a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, what: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what.encode() + b"\n")
        async with asyncio.timeout(20):
            return (await self._process.stdout.readline()).decode().strip()


@asynccontextmanager
async def grpc_client(xds: str) -> AsyncIterator[GrpcClient]:
    bootstrap = {
        "xds_servers": [
            {
                "server_uri": xds,
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {"id": "grpc", "locality": {"region": "here"}},
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT),
        env={**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield GrpcClient(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@pytest.mark.parametrize("over", ["tcp", "unix"])
async def test_grpc_resolves_follows_endpoints_and_has_accepted_everything(
    over: str, tmp_path: Path, real_envoy: Any
) -> None:
    store: SnapshotStore[None] = SnapshotStore()
    server = XdsServer(store.generators(), admit=admit_all, needs_push=store.needs_push)
    server.mark_ready()
    listener = PlainListener() if over == "tcp" else UnixListener(path=tmp_path / "xds.sock")
    async with backend(b"one") as one, backend(b"two") as two:
        store.set("grpc", snapshot(one))
        async with serving(server, [listener]) as bound, grpc_client(bound.addresses[0]) as client:
            assert await client.tell("ask") == "one"
            server.push_now(store.set("grpc", snapshot(two)))
            await real_envoy.until(lambda: client.tell("ask"), "two")
            kinds = ("Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration")
            assert await client.tell("status") == str([(kind, ACKED) for kind in kinds])
            (status,) = server.clients()
            assert all(kind.in_sync for kind in status.types.values())
