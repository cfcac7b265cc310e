"""A real Envoy, and what it takes to make it carry traffic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

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

from mesh_testkit import find_free_port
from xds_server import Resource

PATIENCE_S = 60


class RealEnvoy:
    """Runs Envoy with a bootstrap that points to one xDS server."""

    def __init__(self, binary: Path, directory: Path) -> None:
        self._binary = binary
        self._directory = directory
        self.port = find_free_port()
        self.admin = find_free_port()

    def resources(self, mode: str, upstream: int) -> EnvoyResources:
        return EnvoyResources(self.source(mode), self.port, upstream)

    @asynccontextmanager
    async def upstream(self) -> AsyncIterator[int]:
        """An HTTP server that says yes to everything."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            server.close()

    async def get(self, path: str, *, admin: bool = False) -> tuple[int, str]:
        """Status and, of the admin port, body; else what the route says in `x-generation`."""
        port = self.admin if admin else self.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        status = int(head.split(" ", 2)[1])
        if not admin:
            return status, head.partition("x-generation: ")[2].partition("\r\n")[0]
        whole = ""
        while "transfer-encoding: chunked" in head and body:
            size, _, rest = body.partition("\r\n")
            whole += rest[: int(size, 16)]
            body = rest[int(size, 16) + 2 :]
        return status, whole or body

    async def stat(self, name: str) -> int:
        _, body = await self.get(f"/stats?format=json&filter=^{name}$", admin=True)
        (found,) = [entry for entry in json.loads(body)["stats"] if "value" in entry]
        return int(found["value"])

    def source(self, mode: str) -> dict[str, Any]:
        """A ConfigSource: `sotw` and `delta` are aggregated, `...-each` a service a type."""
        if mode in {"sotw", "delta"}:
            return {"ads": {}, "resource_api_version": "V3"}
        return {"api_config_source": self._api(mode), "resource_api_version": "V3"}

    @asynccontextmanager
    async def running(
        self,
        address: dict[str, Any],
        *,
        mode: str = "sotw",
        node_id: str = "envoy",
        options: tuple[str, ...] = (),
    ) -> AsyncIterator[None]:
        path = self._directory / "bootstrap.json"
        path.write_text(json.dumps(self._bootstrap(address, mode, node_id)))
        usual = ("--disable-hot-restart", "--concurrency", "1", "-l", "warning")
        with (self._directory / "envoy.log").open("wb") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                self._binary, "-c", path, *usual, *options, stdout=log, stderr=log
            )
            try:
                yield
            finally:
                with suppress(ProcessLookupError):  # it has ended by itself
                    process.terminate()
                await process.wait()

    async def until(self, query: Callable[[], Awaitable[str]], expected: str) -> None:
        """Ask until the answer is as expected; there is no event to wait for in Envoy."""
        answer = ""
        async with self.patience(lambda: f"{answer!r} instead of {expected!r}"):
            while True:
                with suppress(OSError):
                    answer = await query()
                if answer == expected:
                    return
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def patience(self, seen: Callable[[], str]) -> AsyncIterator[None]:
        """Fail what takes too long, with what was seen and what Envoy has logged."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        except TimeoutError:
            pytest.fail(f"after {PATIENCE_S} s: {seen()}\nEnvoy: {self.said()}")

    def said(self) -> str:
        """What Envoy has logged, and whether it still runs."""
        ended = getattr(self._process, "returncode", None)
        return f"exit code {ended}\n{(self._directory / 'envoy.log').read_text()}"

    def _api(self, mode: str) -> dict[str, Any]:
        if mode == "rest":
            return {
                "api_type": "REST",
                "transport_api_version": "V3",
                "cluster_names": ["xds"],
                "refresh_delay": "0.05s",
                # By default a poll is given up after a second, which a busy machine may take.
                "request_timeout": f"{PATIENCE_S}s",
            }
        return {
            "api_type": "DELTA_GRPC" if mode.startswith("delta") else "GRPC",
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
        }

    def _bootstrap(self, address: dict[str, Any], mode: str, node_id: str) -> dict[str, Any]:
        protocol = "http_protocol_options" if mode == "rest" else "http2_protocol_options"
        options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        source = self.source(mode)
        ads = {"ads_config": self._api(mode)} if "ads" in source else {}
        return {
            "node": {"id": node_id, "cluster": "test"},
            "admin": {
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": self.admin}}
            },
            "dynamic_resources": {**ads, "cds_config": source, "lds_config": source},
            "static_resources": {
                "clusters": [
                    {
                        "name": "xds",
                        "type": "STATIC",
                        "connect_timeout": "1s",
                        "typed_extension_protocol_options": {
                            options: {
                                "@type": f"type.googleapis.com/{options}",
                                "explicit_http_config": {protocol: {}},
                            }
                        },
                        "load_assignment": {
                            "cluster_name": "xds",
                            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                        },
                    }
                ]
            },
        }


class EnvoyResources:
    """What makes an Envoy carry traffic: one listener, route, cluster and endpoint."""

    def __init__(self, source: dict[str, Any], port: int, upstream: int) -> None:
        self._source = source
        self._port = port
        self._upstream = upstream

    def cluster(self, name: str, *, change: int = 0) -> Resource:
        cluster: Any = cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.EDS)
        cluster.connect_timeout.seconds = 1 + change
        ParseDict(self._source, cluster.eds_cluster_config.eds_config)
        return Resource.pack(cluster, name=name)

    def endpoints(self, name: str) -> Resource:
        message: Any = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        address = message.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
        address.address, address.port_value = "127.0.0.1", self._upstream
        return Resource.pack(message, name=name)

    def route(self, cluster: str, generation: int, *, name: str = "route") -> Resource:
        message: Any = route_pb2.RouteConfiguration(name=name)
        host = message.virtual_hosts.add(name=f"host-{generation}", domains=["*"])
        entry = host.routes.add()
        entry.match.prefix = "/"
        entry.route.cluster = cluster
        header = message.response_headers_to_add.add().header
        header.key, header.value = "x-generation", str(generation)
        return Resource.pack(message, name=name)

    def listener(self, generation: int, *, route: str = "route") -> Resource:
        manager: Any = http_connection_manager_pb2.HttpConnectionManager(
            stat_prefix=f"generation_{generation}"
        )
        manager.rds.route_config_name = route
        ParseDict(self._source, manager.rds.config_source)
        manager.http_filters.add(name="router").typed_config.Pack(router_pb2.Router())
        message: Any = listener_pb2.Listener(name="listener")
        message.address.socket_address.address = "127.0.0.1"
        message.address.socket_address.port_value = self._port
        message.filter_chains.add().filters.add(name="hcm").typed_config.Pack(manager)
        return Resource.pack(message, name="listener")


@pytest.fixture
def real_envoy(envoy_binary: Path, tmp_path: Path) -> RealEnvoy:
    return RealEnvoy(envoy_binary, tmp_path)
