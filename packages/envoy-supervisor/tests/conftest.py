"""A slow HTTP application, a bootstrap that puts Envoy in front of it, and fake Envoys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from envoy_supervisor import Address, BootstrapConfig, CrashPolicy, EnvoyConfig, UnixAddress
from envoy_supervisor.testing import FakeEnvoy, FakeEnvoyFiles, fake_envoy

HEALTHY = FakeEnvoy()


class SlowApplication:
    """Answers each request only when `release` is set."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.release = asyncio.Event()
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if not head.startswith(b"GET /quick"):
                    self.arrived.set()
                    await self.release.wait()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def application() -> AsyncIterator[SlowApplication]:
    slow = SlowApplication()
    server = await asyncio.start_server(slow.answer, "127.0.0.1", 0)
    slow.port = server.sockets[0].getsockname()[1]
    yield slow
    slow.release.set()
    server.close()
    await server.wait_closed()


def http_listener(port: int, *, inbound: bool = True) -> dict[str, Any]:
    types = "type.googleapis.com/envoy.extensions.filters"
    return {
        "name": f"listener_{port}",
        "traffic_direction": "INBOUND" if inbound else "OUTBOUND",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "http",
                        "typed_config": {
                            "@type": (
                                f"{types}.network.http_connection_manager.v3.HttpConnectionManager"
                            ),
                            "stat_prefix": "inbound",
                            "route_config": {
                                "virtual_hosts": [
                                    {
                                        "name": "all",
                                        "domains": ["*"],
                                        "routes": [
                                            {
                                                "match": {"prefix": "/"},
                                                "route": {"cluster": "application"},
                                            }
                                        ],
                                    }
                                ]
                            },
                            "http_filters": [
                                {
                                    "name": "router",
                                    "typed_config": {"@type": f"{types}.http.router.v3.Router"},
                                }
                            ],
                        },
                    }
                ]
            }
        ],
    }


def proxy_bootstrap(
    listeners: list[dict[str, Any]], application: int, admin: Path
) -> dict[str, Any]:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": application}}
    return {
        "admin": {"address": {"pipe": {"path": str(admin)}}},
        "static_resources": {
            "listeners": listeners,
            "clusters": [
                {
                    "name": "application",
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    "load_assignment": {
                        "cluster_name": "application",
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                    },
                }
            ],
        },
    }


class ProxyConfig(Protocol):
    def __call__(self, listen: int, application: int, **changes: Any) -> EnvoyConfig: ...


@pytest.fixture
def proxy_config(envoy_binary: Path, socket_dir: Path) -> ProxyConfig:
    """Configure a real Envoy that listens on one port and forwards to another."""

    def make(listen: int, application: int, **changes: Any) -> EnvoyConfig:
        bootstrap = socket_dir / "bootstrap.json"
        bootstrap.write_text(
            json.dumps(proxy_bootstrap([http_listener(listen)], application, socket_dir / "admin"))
        )
        config = EnvoyConfig(
            binary=envoy_binary, bootstrap=bootstrap, directory=socket_dir, concurrency=1
        )
        return replace(config, **changes)

    return make


class Fake(Protocol):
    def __call__(
        self, behaviour: FakeEnvoy = ..., **changes: Any
    ) -> tuple[EnvoyConfig, FakeEnvoyFiles]: ...


@pytest.fixture
def fake(socket_dir: Path) -> Fake:
    """Make a fake Envoy and the configuration to run it with."""

    def make(
        behaviour: FakeEnvoy = HEALTHY,
        **changes: Any,
    ) -> tuple[EnvoyConfig, FakeEnvoyFiles]:
        files = fake_envoy(socket_dir / "fake", behaviour)
        config = EnvoyConfig(
            binary=files.binary,
            bootstrap=BootstrapConfig(
                node_id="n",
                node_cluster="c",
                admin=UnixAddress(path=socket_dir / "admin"),
                xds_socket=socket_dir / "XDS",
                sds_socket=socket_dir / "SDS",
                readiness_listener=Address(host="127.0.0.1", port=15021),
            ),
            directory=socket_dir / "envoy",
            termination_drain=timedelta(seconds=30),
            crashes=CrashPolicy(budget=0),
        )
        return replace(config, **changes), files

    return make


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Read as a client does that leaves when it has its answer; empty if there is none."""
    received = bytearray()
    while not received.endswith(b"\r\n\r\ndone") and (piece := await reader.read(4096)):
        received += piece
    writer.close()
    return bytes(received)


@pytest.fixture
def get() -> Callable[[int], Any]:
    """Send one request over a new connection; the task has the answer when it is complete."""

    @asynccontextmanager
    async def request(port: int) -> AsyncIterator[asyncio.Task[bytes]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        response = asyncio.create_task(answer(reader, writer), name="response")
        try:
            yield response
        finally:
            response.cancel()
            writer.close()

    return request
