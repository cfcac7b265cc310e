"""Real Envoy, both dialects: everything replaced under traffic, and clusters that warm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import config_source_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as hcm_pb2,
)

from xds_server import (
    Client,
    LooksAway,
    PushRequest,
    Resource,
    ServerConfig,
    UnixListener,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import admit_all

SWAPS = 200


class Watcher(LooksAway):
    """Lets a test wait for what a stream does."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()
        self.sent_of: list[str] = []

    def received(self, _client: Client[object], _request: Any, /) -> None:
        self._moved.set()

    def sent(self, _client: Client[object], response: Any, /) -> None:
        self.sent_of.append(response.type_url)
        self._moved.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            # What came in is looked at again once it has been worked on.
            while not holds():
                self._moved.clear()
                await asyncio.wait([asyncio.ensure_future(self._moved.wait())], timeout=0.05)


@dataclass(kw_only=True)
class Mesh:
    """One Envoy and what feeds it."""

    server: XdsServer[None]
    watcher: Watcher
    state: Any
    admin: int
    port: int
    upstream: int
    generation: int = 0

    def replace_everything(self) -> None:
        """New cluster, endpoints and route to it, new listener; the old ones go."""
        old, self.generation = self.generation, self.generation + 1
        name = f"generation-{self.generation}"
        if old:
            self.state.drop(types.CLUSTER, f"generation-{old}")
            self.state.drop(types.ENDPOINT, f"generation-{old}")
        self.state.set(
            eds_cluster(name),
            endpoints(name, self.upstream),
            route(name, self.generation),
            listener(self.port, self.generation),
        )

    def in_sync(self) -> bool:
        statuses = self.server.clients()
        return bool(statuses) and all(
            kind.in_sync and kind.resources == 1 for kind in statuses[0].types.values()
        )

    async def push(self, *type_urls: str) -> None:
        """Push, and wait until Envoy has accepted these types anew and has no old ones."""
        before = self.nonces(type_urls)
        self.server.push_now(PushRequest())
        await self.watcher.until(lambda: self.in_sync() and not before & self.nonces(type_urls))

    def nonces(self, type_urls: Iterable[str]) -> set[str]:
        (status,) = self.server.clients()
        return {status.types[type_url].nonce_acked for type_url in type_urls}

    async def get(self, path: str, port: int) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        response = await reader.read()
        writer.close()
        await writer.wait_closed()
        head, _, body = response.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head:
            body = dechunked(body)
        return int(head.split(b" ", 2)[1]), body

    async def stat(self, name: str) -> int:
        _, body = await self.get(f"/stats?format=json&filter=^{name}$", self.admin)
        (found,) = [entry for entry in json.loads(body)["stats"] if "value" in entry]
        return int(found["value"])


def dechunked(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        whole += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return whole


def ads() -> Any:
    return config_source_pb2.ConfigSource(
        ads=config_source_pb2.AggregatedConfigSource(),
        resource_api_version=config_source_pb2.ApiVersion.V3,
    )


def eds_cluster(name: str, *, change: int = 0) -> Resource:
    cluster: Any = cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.EDS)
    cluster.connect_timeout.seconds = 1 + change
    cluster.eds_cluster_config.eds_config.CopyFrom(ads())
    return Resource.pack(cluster, name=name)


def endpoints(name: str, port: int) -> Resource:
    message: Any = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
    address = message.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
    address.address, address.port_value = "127.0.0.1", port
    return Resource.pack(message, name=name)


def route(cluster: str, generation: int) -> Resource:
    message: Any = route_pb2.RouteConfiguration(name="route")
    host = message.virtual_hosts.add(name=f"host-{generation}", domains=["*"])
    entry = host.routes.add()
    entry.match.prefix = "/"
    entry.route.cluster = cluster
    return Resource.pack(message, name="route")


def listener(port: int, generation: int) -> Resource:
    manager: Any = hcm_pb2.HttpConnectionManager(stat_prefix=f"generation_{generation}")
    manager.rds.route_config_name = "route"
    manager.rds.config_source.CopyFrom(ads())
    router = manager.http_filters.add(name="router")
    router.typed_config.Pack(router_pb2.Router())
    message: Any = listener_pb2.Listener(name="listener")
    message.address.socket_address.address = "127.0.0.1"
    message.address.socket_address.port_value = port
    message.filter_chains.add().filters.add(name="hcm").typed_config.Pack(manager)
    return Resource.pack(message, name="listener")


@asynccontextmanager
async def upstream() -> AsyncIterator[int]:
    """An HTTP server that says yes to everything."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        server.close()


@pytest.fixture(params=["sotw", "delta"])
async def mesh(
    request: Any, state: Any, tmp_path: Path, real_envoy: Any, free_port: Any
) -> AsyncIterator[Mesh]:
    watcher = Watcher()
    kinds = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE)
    server: XdsServer[None] = XdsServer(
        dict.fromkeys(kinds, state),
        admit=admit_all,
        config=ServerConfig(debounce_quiet_s=0.001),
        observer=watcher,
    )
    server.mark_ready()
    path = tmp_path / "xds.sock"
    admin = free_port()
    async with upstream() as upstream_port, serving(server, [UnixListener(path=path)]):
        mesh = Mesh(
            server=server,
            watcher=watcher,
            state=state,
            admin=admin,
            port=free_port(),
            upstream=upstream_port,
        )
        mesh.replace_everything()
        address = {"pipe": {"path": str(path)}}
        async with real_envoy.running(address, admin, mode=request.param):
            await watcher.until(lambda: mesh.in_sync() and len(mesh.server.clients()[0].types) == 4)
            yield mesh


async def test_everything_is_replaced_under_traffic_without_an_error(mesh: Mesh) -> None:
    statuses: list[int] = []
    swapping = True

    async def load() -> None:
        while swapping:
            status, _ = await mesh.get("/", mesh.port)
            statuses.append(status)

    async with asyncio.TaskGroup() as group:
        loads = [group.create_task(load()) for _ in range(3)]
        for _ in range(SWAPS):
            mesh.replace_everything()
            await mesh.push(types.CLUSTER, types.LISTENER, types.ROUTE)
            status, _ = await mesh.get("/", mesh.port)
            statuses.append(status)
        swapping = False
        await asyncio.wait(loads)
    assert set(statuses) == {200}
    assert len(statuses) > SWAPS
    assert await mesh.stat(r"cluster_manager\.warming_clusters") == 0
    _, clusters = await mesh.get("/clusters?format=json", mesh.admin)
    assert {entry["name"] for entry in json.loads(clusters)["cluster_statuses"]} == {
        "xds",
        f"generation-{mesh.generation}",
    }


async def test_a_cluster_that_changes_alone_is_warm_at_once(mesh: Mesh) -> None:
    """Its endpoints come again though they did not change: else it warms for 15 seconds."""
    name = f"generation-{mesh.generation}"
    for change in range(1, 6):
        mesh.state.set(eds_cluster(name, change=change))
        mesh.watcher.sent_of.clear()
        await mesh.push(types.CLUSTER, types.ENDPOINT)
        assert mesh.watcher.sent_of == [types.CLUSTER, types.ENDPOINT]
        assert await mesh.stat(r"cluster_manager\.warming_clusters") == 0
        assert await mesh.stat(r"cluster_manager\.cluster_modified") == change
