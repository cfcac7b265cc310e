"""Real Envoys with their neighbours, a slow HTTP application above all, and fake Envoys."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from envoy_supervisor import Address, BootstrapConfig, CrashPolicy, EnvoyConfig, UnixAddress
from envoy_supervisor.testing import FakeEnvoy, FakeEnvoyFiles, fake_envoy
from mesh_testkit import PATIENCE_S

sys.path.insert(0, str(Path(__file__).parent / "support"))

from supervised import (
    Fake,
    Get,
    ProxyConfig,
    SlowApplication,
    WithoutControlPlane,
    http_listener,
    proxy_bootstrap,
)

HEALTHY = FakeEnvoy()
PATIENT_GRACE = timedelta(seconds=PATIENCE_S)
"""So that an Envoy that is slow to exit on a busy machine is not killed."""


@pytest.fixture
async def application() -> AsyncIterator[SlowApplication]:
    slow = SlowApplication()
    server = await asyncio.start_server(slow.answer, "127.0.0.1", 0)
    slow.port = server.sockets[0].getsockname()[1]
    yield slow
    slow.release.set()
    server.close()
    await server.wait_closed()


@pytest.fixture
async def status_port() -> AsyncIterator[int]:
    """An agent's status server, which says what it was asked for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        body = b"the agent was asked for " + path
        head = f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


@pytest.fixture
def bootstrap_config(socket_dir: Path) -> BootstrapConfig:
    """What a bootstrap needs to be one."""
    return BootstrapConfig(
        node_id="n",
        node_cluster="c",
        admin=UnixAddress(path=socket_dir / "admin"),
        xds_socket=socket_dir / "XDS",
        sds_socket=socket_dir / "SDS",
    )


@pytest.fixture
def without_control_plane(envoy_binary: Path, socket_dir: Path) -> WithoutControlPlane:
    """Configure a real Envoy that does not wait for a control plane before it listens."""

    def make(rendered: dict[str, Any]) -> EnvoyConfig:
        bootstrap = socket_dir / "bootstrap.json"
        static = {name: part for name, part in rendered.items() if name != "dynamic_resources"}
        bootstrap.write_text(json.dumps(static))
        return EnvoyConfig(
            binary=envoy_binary,
            bootstrap=bootstrap,
            directory=socket_dir,
            concurrency=1,
            stop_grace=PATIENT_GRACE,
        )

    return make


@pytest.fixture
def proxy_config(envoy_binary: Path, socket_dir: Path) -> ProxyConfig:
    """Configure a real Envoy that listens on one port and forwards to another."""

    def make(listen: int, application: int, **changes: Any) -> EnvoyConfig:
        bootstrap = socket_dir / "bootstrap.json"
        bootstrap.write_text(
            json.dumps(proxy_bootstrap([http_listener(listen)], application, socket_dir / "admin"))
        )
        config = EnvoyConfig(
            binary=envoy_binary,
            bootstrap=bootstrap,
            directory=socket_dir,
            concurrency=1,
            stop_grace=PATIENT_GRACE,
        )
        return replace(config, **changes)

    return make


@pytest.fixture
def fake(socket_dir: Path, bootstrap_config: BootstrapConfig) -> Fake:
    """Make a fake Envoy and the configuration to run it with."""

    def make(
        behaviour: FakeEnvoy = HEALTHY,
        **changes: Any,
    ) -> tuple[EnvoyConfig, FakeEnvoyFiles]:
        files = fake_envoy(socket_dir / "fake", behaviour)
        config = EnvoyConfig(
            binary=files.binary,
            bootstrap=replace(
                bootstrap_config, readiness_listener=Address(host="127.0.0.1", port=15021)
            ),
            directory=socket_dir / "envoy",
            termination_drain=timedelta(seconds=30),
            stop_grace=PATIENT_GRACE,
            crashes=CrashPolicy(budget=0),
        )
        return replace(config, **changes), files

    return make


@pytest.fixture
def get() -> Get:
    """Send one request over a new connection; the task has the answer when it is complete."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Read as a client does that leaves when it has its answer; empty if there is none."""
        received = bytearray()
        while not received.endswith(b"\r\n\r\ndone") and (piece := await reader.read(4096)):
            received += piece
        writer.close()
        return bytes(received)

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


@pytest.fixture
async def loop_in_use() -> None:
    """The event loop has had a connection: from its first one on, libuv has a spare descriptor."""
    ours, theirs = socket.socketpair()
    with theirs:
        _, writer = await asyncio.open_connection(sock=ours)
        writer.close()
        await writer.wait_closed()
