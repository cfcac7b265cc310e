"""What a client of gRPC's is given to resolve, and who answers where it then calls."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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

from mesh_testkit import PATIENCE_S, until
from xds_server import (
    Listener,
    PlainListener,
    Resource,
    Snapshot,
    SnapshotStore,
    UnixListener,
    XdsServer,
    serving,
)
from xds_server.testing import admit_all

ADS = {"ads": {}, "resource_api_version": "V3"}


def snapshot(port: int) -> Snapshot:
    """`web` is on this port, as gRPC's clients ask: listener, route, cluster, endpoints."""
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
    return Snapshot.build(Resource.pack(message, name=name) for name, message in named)


class Says(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Answers every call with one word."""

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
    """A client in a process of its own: it gets lines on stdin and answers each with one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, what: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what.encode() + b"\n")
        async with asyncio.timeout(PATIENCE_S):
            return (await self._process.stdout.readline()).decode().strip()


@asynccontextmanager
async def grpc_client(xds: str, *command: str | Path) -> AsyncIterator[GrpcClient]:
    """Run a client whose bootstrap points to `xds`."""
    bootstrap = {
        "xds_servers": [
            {
                "server_uri": xds,
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {"id": "grpc", "locality": {"region": "here", "zone": "there"}},
    }
    process = await asyncio.create_subprocess_exec(
        *command,
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


Followed = Callable[..., AbstractAsyncContextManager[GrpcClient]]


@asynccontextmanager
async def followed(listener: Listener, *command: str | Path) -> AsyncIterator[GrpcClient]:
    """A client that resolved `web` and followed it to another port."""
    store: SnapshotStore[None] = SnapshotStore()
    server = XdsServer(store.generators(), admit=admit_all, needs_push=store.needs_push)
    server.set_ready()
    async with backend(b"one") as one, backend(b"two") as two:
        store.set("grpc", snapshot(one))
        async with (
            serving(server, [listener]) as bound,
            grpc_client(bound.addresses[0], *command) as client,
        ):
            assert await client.tell("ask") == "one"
            server.push_now(store.set("grpc", snapshot(two)))
            async with asyncio.timeout(PATIENCE_S):
                while await client.tell("ask") != "two":
                    pass
            yield client
            (status,) = server.clients()
            await until(
                lambda: all(kind.in_sync for kind in server.clients()[0].types.values()),
                what="every type to be accepted",
                seen=server.clients,
            )
            assert (status.node.region, status.node.zone) == ("here", "there")


@pytest.fixture(name="followed")
def followed_fixture() -> Followed:
    return followed


@pytest.fixture(params=["tcp", "unix"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Listener:
    if request.param == "tcp":
        return PlainListener()
    return UnixListener(path=tmp_path / "xds.sock")
